package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
)

// hosts are the nodes of a network: a namespace and an address each.
type hosts struct {
	cfg    Config
	spaces []Space
}

// Nodes is how many there are.
func (h *hosts) Nodes() int { return h.cfg.Nodes }

// Addr is node i's IPv4 address.
func (h *hosts) Addr(i int) netip.Addr { return h.cfg.addr(i) }

// Space is node i's namespace. The node must exist.
func (h *hosts) Space(i int) Space { return h.spaces[i] }

// Place makes cmd, which has not been started, run in node i's namespace; see Space.
func (h *hosts) Place(i int, cmd *exec.Cmd) error {
	if err := h.check(i); err != nil {
		return err
	}
	return h.spaces[i].Place(cmd)
}

// Do calls f in node i's namespace; see Space.
func (h *hosts) Do(i int, f func() error) error {
	if err := h.check(i); err != nil {
		return err
	}
	return h.spaces[i].Do(f)
}

// check returns an error if one of the nodes does not exist.
func (h *hosts) check(nodes ...int) error {
	for _, i := range nodes {
		if i < 0 || i >= h.cfg.Nodes {
			return fmt.Errorf("lab: no node %d: they are numbered from 0 to %d", i, h.cfg.Nodes-1)
		}
	}
	return nil
}

// namespaces is where `ip netns` keeps them: a file each, with the namespace mounted on it.
const namespaces = "/run/netns"

// A Space is a network namespace, by the name that `ip netns` knows it by.
type Space string

func (s Space) path() string { return filepath.Join(namespaces, string(s)) }

// Place makes cmd, which has not been started, run in the namespace. The process is the command
// itself: its ID and its signals are not affected. It needs nsenter, of util-linux.
func (s Space) Place(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err // the command was not found
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("lab: %w: install util-linux", err)
	}
	// nsenter replaces itself with the command.
	args := []string{nsenter, "--net=" + s.path(), "--", cmd.Path}
	if len(cmd.Args) > 0 {
		args = append(args, cmd.Args[1:]...)
	}
	cmd.Path, cmd.Args = nsenter, args
	return nil
}

// RemoveSpaces removes namespaces. Processes in them must have ended: one that still runs keeps its
// namespace, without a name, until it ends.
func RemoveSpaces(spaces []Space) error {
	var errs []error
	for _, s := range spaces {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}
