package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Place makes cmd, which has not been started, run in node i's namespace. The process is the
// command itself: its ID and its signals are not affected. It needs nsenter, of util-linux.
func (l *Lab) Place(i int, cmd *exec.Cmd) error {
	if i < 0 || i >= len(l.nodes) {
		return l.noNode(i)
	}
	return placeIn(l.nodes[i].name, cmd)
}

// placeIn is Place, by the namespace's name.
func placeIn(namespace string, cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err // the command was not found
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("lab: %w: install util-linux", err)
	}
	// nsenter replaces itself with the command.
	args := []string{nsenter, "--net=" + filepath.Join(namespaces, namespace), "--", cmd.Path}
	if len(cmd.Args) > 0 {
		args = append(args, cmd.Args[1:]...)
	}
	cmd.Path, cmd.Args = nsenter, args
	return nil
}

// Do calls f in node i's namespace: sockets that f makes belong to that node, and so do processes
// that it starts. f must do so in its own goroutine. A listener or a dial to an IP address is made
// there; a dial to a host name is not.
func (l *Lab) Do(i int, f func() error) error {
	if i < 0 || i >= len(l.nodes) {
		return l.noNode(i)
	}
	return doIn(l.nodes[i].name, f)
}

// doIn is Do, by the namespace's name.
func doIn(namespace string, f func() error) (err error) {
	target, err := os.Open(filepath.Join(namespaces, namespace))
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer target.Close()
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("lab: %w", err)
	}
	defer home.Close()
	defer func() {
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, fmt.Errorf("lab: leaving namespace %s: %w", namespace, back))
			return // the thread stays locked, and ends with its goroutine
		}
		runtime.UnlockOSThread()
	}()
	if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("lab: entering namespace %s: %w", namespace, explain(err))
	}
	return f()
}
