package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// made counts what this process made of namespaces: several networks may exist at once.
var made atomic.Int64

// NewSpaces makes namespaces without a network. First it removes those of this name that crashed
// processes left, as Clean does. After an error nothing is left.
func NewSpaces(ctx context.Context, name string, n int) (spaces []Space, err error) {
	defer func() {
		if err != nil {
			spaces, err = nil, fmt.Errorf("lab: %w", errors.Join(explain(err), RemoveSpaces(spaces)))
		}
	}()
	if !nameForm.MatchString(name) {
		return nil, nameFault(name)
	}
	if _, err := Clean(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		return nil, err
	}
	if err := shareNamespaces(); err != nil {
		return nil, fmt.Errorf("%s: %w", namespaces, err)
	}
	number := made.Add(1)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return spaces, err
		}
		s := Space(fmt.Sprintf("%s-%d-%d-%d", name, os.Getpid(), number, i))
		if err := s.make(); err != nil {
			return spaces, fmt.Errorf("namespace %s: %w", s, err)
		}
		spaces = append(spaces, s)
	}
	return spaces, nil
}

// shareNamespaces makes the folder a mount of its own that is shared, as `ip netns` does when it
// finds none: done later by it, that would cover what was mounted here before, which could not be
// removed then.
func shareNamespaces() error {
	share := func() error { return unix.Mount("", namespaces, "", unix.MS_SHARED|unix.MS_REC, "") }
	err := share()
	if errors.Is(err, unix.EINVAL) { // no mount yet
		if err = unix.Mount(namespaces, namespaces, "", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = share()
		}
	}
	return err
}

// explain names the usual reason of a failure.
func explain(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w (%w)", ErrNotRoot, err)
	}
	return err
}

// make makes the namespace, in a thread that ends afterwards: a thread in a foreign namespace is of
// no use to anybody else.
func (s Space) make() (err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			err = s.mount()
		}
	}()
	<-ended
	return err
}

// mount gives the thread's namespace its name, as `ip netns add` would.
func (s Space) mount() error {
	f, err := os.OpenFile(s.path(), os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	err = f.Close()
	if err == nil {
		err = unix.Mount("/proc/thread-self/ns/net", s.path(), "", unix.MS_BIND, "")
	}
	if err != nil {
		return errors.Join(err, os.Remove(s.path()))
	}
	return nil
}

// Do calls f in the namespace: sockets that f makes belong to it, and so do processes that it
// starts. f must do so in its own goroutine. A listener or a dial to an IP address is made there; a
// dial to a host name is not.
func (s Space) Do(f func() error) (err error) {
	target, err := os.Open(s.path())
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
			err = errors.Join(err, fmt.Errorf("lab: leaving namespace %s: %w", s, back))
			return // the thread stays locked, and ends with its goroutine
		}
		runtime.UnlockOSThread()
	}()
	if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("lab: entering namespace %s: %w", s, explain(err))
	}
	return f()
}

func (s Space) remove() error {
	// EINVAL: nothing is mounted there
	if err := unix.Unmount(s.path(), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("lab: removing namespace %s: %w", s, explain(err))
	}
	return os.Remove(s.path())
}

// Clean removes the namespaces of that name whose processes are gone, and says which.
func Clean(name string) (removed []string, err error) {
	entries, err := os.ReadDir(namespaces)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	var errs []error
	for _, e := range entries {
		owner, ok := ownerOf(e.Name(), name)
		if !ok || alive(owner) {
			continue
		}
		if err := Space(e.Name()).remove(); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, e.Name())
	}
	return removed, errors.Join(errs...)
}

// alive says whether a process runs. One that has ended, and whose parent has not asked how, is a
// zombie with a number still.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	// after the name, which may hold anything
	_, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// ownerOf is the process that made a namespace, from its name.
func ownerOf(namespace, name string) (pid int, ok bool) {
	parts := strings.Split(namespace, "-")
	if len(parts) != 4 || parts[0] != name {
		return 0, false
	}
	for _, part := range parts[1:] {
		if n, err := strconv.Atoi(part); err != nil || n < 0 {
			return 0, false
		}
	}
	pid, _ = strconv.Atoi(parts[1])
	return pid, pid > 0
}
