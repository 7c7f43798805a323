package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do calls f in the namespace, in a goroutine with a thread of its own: sockets that f makes belong
// to it. A listener or a dial to an IP address is made there; a dial to a host name is not.
func (s Space) Do(f func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread remains in the namespace
		ended <- s.enter(f)
	}()
	return <-ended
}

func (s Space) enter(f func() error) error {
	target, err := os.Open(s.path())
	if err == nil {
		err = unix.Setns(int(target.Fd()), unix.CLONE_NEWNET)
		_ = target.Close()
	}
	if err != nil {
		return fmt.Errorf("lab: entering namespace %s: %w", s, err)
	}
	return f()
}

const tunPath = "/dev/net/tun"

// openTun makes a TUN device in the namespace: what it reads are packets that the kernel routes to
// it, and the kernel receives packets that are written.
func openTun(s Space) (file *os.File, err error) {
	err = s.Do(func() error {
		fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("lab: %s: %w: load the kernel's tun module (modprobe tun), or give the container that "+
				"device", tunPath, err)
		}
		request, err := unix.NewIfreq(deviceName)
		if err == nil {
			request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		if err != nil {
			return fmt.Errorf("lab: making a TUN device: %w", errors.Join(err, unix.Close(fd)))
		}
		// not before: if it were polled before it is a device, a read would never wake
		file = os.NewFile(uintptr(fd), tunPath)
		return nil
	})
	return file, err
}
