package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	tunPath = "/dev/net/tun"
	tunName = "lab0" // in every namespace
	// tunQueue is how many packets the kernel holds until they are read, more than its default of
	// 500: this process may get no CPU time for some milliseconds, and only the links should drop
	// packets.
	tunQueue = 4096
)

// tun is a TUN device: the process reads packets that the kernel routes to it, and the kernel
// receives packets that the process writes.
type tun struct {
	file *os.File
	raw  syscall.RawConn
}

// openTun makes the device of node i in its namespace.
func openTun(s Space, cfg Config, i int) (device, error) {
	var t *tun
	err := s.Do(func() (err error) {
		t, err = newTun(cfg.addr(i), cfg.Network.Bits(), cfg.MTU)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", s, explain(err))
	}
	return t, nil
}

// newTun makes the device in the namespace that the calling thread is in.
func newTun(addr netip.Addr, bits, mtu int) (*tun, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: load the kernel's tun module (modprobe tun), or give the container that device",
			tunPath, err)
	}
	if err := setUp(fd, addr, bits, mtu); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	// not before: if it were polled before it is set up, a read would never wake
	file := os.NewFile(uintptr(fd), tunPath)
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &tun{file, raw}, nil
}

func setUp(fd int, addr netip.Addr, bits, mtu int) error {
	request, err := unix.NewIfreq(tunName)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("making a TUN device: %w", err)
	}
	return configure(addr, bits, mtu)
}

// configure gives the devices of the thread's namespace their addresses and turns them on.
func configure(addr netip.Addr, bits, mtu int) error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	address := addr.As4()
	mask := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), bits).Masked().Addr().As4()
	for _, step := range []struct {
		what, device string
		request      uint
		fill         func(*unix.Ifreq) error
	}{
		{"address", tunName, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address[:]) }},
		{"network mask", tunName, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask[:]) }},
		{"MTU", tunName, unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(mtu)); return nil }},
		{"queue", tunName, unix.SIOCSIFTXQLEN, func(r *unix.Ifreq) error { r.SetUint32(tunQueue); return nil }},
		{"state", tunName, unix.SIOCSIFFLAGS, turnOn},
		{"state", "lo", unix.SIOCSIFFLAGS, turnOn},
	} {
		r, err := unix.NewIfreq(step.device)
		if err == nil {
			err = step.fill(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(sock, step.request, r)
		}
		if err != nil {
			return fmt.Errorf("setting the %s of %s: %w", step.what, step.device, err)
		}
	}
	return nil
}

func turnOn(r *unix.Ifreq) error {
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return nil
}

func (t *tun) read(batch []*packet) (n int, err error) {
	var failed error
	err = t.raw.Read(func(fd uintptr) bool {
		for n < len(batch) {
			pk := batch[n]
			size, err := unix.Read(int(fd), pk.buf)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return n > 0
			case err != nil:
				failed = err
				return true
			}
			pk.data = pk.buf[:size]
			n++
		}
		return true
	})
	if n > 0 {
		return n, nil
	}
	return 0, errors.Join(err, failed)
}

func (t *tun) write(data []byte) error {
	_, err := t.file.Write(data)
	return err
}

func (t *tun) Close() error { return t.file.Close() }
