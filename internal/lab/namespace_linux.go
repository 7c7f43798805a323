package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// namespaces is where `ip netns` keeps them: a file each, with the namespace mounted on it.
const namespaces = "/run/netns"

// labs counts the labs that this process made: two may exist at once.
var labs atomic.Int64

func makeNodes(ctx context.Context, cfg Config) (nodes []node, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, removeNodes(nodes))
		}
	}()
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		return nil, explain(err)
	}
	if err := shareNamespaces(); err != nil {
		return nil, fmt.Errorf("lab: %s: %w", namespaces, explain(err))
	}
	number := labs.Add(1)
	for i := range cfg.Nodes {
		if err := ctx.Err(); err != nil {
			return nodes, err
		}
		name := spaceName(cfg.Name, number, i)
		device, err := makeNamespace(name, func() (*tun,
			error,
		) {
			return openTun(name, cfg.addr(i), cfg.Network.Bits(), cfg.MTU)
		})
		if err != nil {
			return nodes, fmt.Errorf("namespace %s: %w", name, explain(err))
		}
		nodes = append(nodes, node{name, device})
	}
	return nodes, nil
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

func removeNodes(nodes []node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.device.Close())
	}
	return errors.Join(errs...)
}

// explain names the usual reason of a failure.
func explain(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w (%w)", ErrNotRoot, err)
	}
	return err
}

// makeNamespace makes a namespace and opens its device, in a thread that ends afterwards: a thread
// in a foreign namespace is of no use to anybody else.
func makeNamespace(name string, open func() (*tun, error)) (device *tun, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		if err = mountNamespace(name); err != nil {
			return
		}
		if device, err = open(); err != nil {
			err = errors.Join(err, removeNamespace(name))
		}
	}()
	<-ended
	return device, err
}

// mountNamespace gives the thread's namespace a name, as `ip netns add` would.
func mountNamespace(name string) error {
	path := filepath.Join(namespaces, name)
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	err = f.Close()
	if err == nil {
		err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func removeNamespace(name string) error {
	path := filepath.Join(namespaces, name)
	// EINVAL: nothing is mounted there
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("lab: removing namespace %s: %w", name, explain(err))
	}
	return os.Remove(path)
}

// Clean removes the namespaces of labs of that name whose processes are gone, and says which. New
// does so before anything else.
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
		if err := removeNamespace(e.Name()); err != nil {
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
