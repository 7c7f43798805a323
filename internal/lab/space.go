package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
)

// ErrNotRoot says that this process may not make network namespaces.
var ErrNotRoot = errors.New("network namespaces and TUN devices need root: run this as root, or with sudo")

// Hosts are the nodes of a network: a namespace and an address each. Nodes are numbered from 0.
type Hosts struct {
	cfg    Config
	spaces []Space // of the nodes, and then of what is between them
}

// newHosts makes a number of namespaces, of which the first are for nodes.
func newHosts(ctx context.Context, cfg Config, number int) (h Hosts, err error) {
	h.cfg = cfg.withDefaults()
	h.spaces, err = NewSpaces(ctx, cfg.Name, number)
	return h, err
}

// Addr is node i's IPv4 address.
func (h *Hosts) Addr(i int) netip.Addr { return h.cfg.addr(i) }

// Space is node i's namespace. The node must exist.
func (h *Hosts) Space(i int) Space { return h.spaces[i] }

// Place makes cmd, which has not been started, run in node i's namespace; see Space.
func (h *Hosts) Place(i int, cmd *exec.Cmd) error {
	if err := h.check(i); err != nil {
		return err
	}
	return h.spaces[i].Place(cmd)
}

// Close removes the namespaces; the processes in them have ended.
func (h *Hosts) Close() error { return RemoveSpaces(h.spaces) }

// check returns an error if one of the nodes does not exist.
func (h *Hosts) check(nodes ...int) error {
	for _, i := range nodes {
		if i < 0 || i >= h.cfg.Nodes {
			return fmt.Errorf("lab: no node %d: they are numbered from 0 to %d", i, h.cfg.Nodes-1)
		}
	}
	return nil
}

// namespaces is where `ip netns` keeps them: a file each, with the namespace mounted on it.
const namespaces = "/run/netns"

// A Space is a network namespace, by the name that `ip netns` knows it by. The empty one is that of
// this process.
type Space string

func (s Space) path() string { return filepath.Join(namespaces, string(s)) }

// made counts what this process made of namespaces: several networks may exist at once.
var made atomic.Int64

// NewSpaces makes namespaces without a network. First it removes those of this name that crashed
// processes left. After an error nothing is left.
func NewSpaces(ctx context.Context, name string, n int) (spaces []Space, err error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("lab: namespaces are Linux's, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	if _, err := clean(name); err != nil {
		return nil, err
	}
	number := made.Add(1)
	var lines []string
	for i := range n {
		s := Space(fmt.Sprintf("%s-%d-%d-%d", name, os.Getpid(), number, i))
		spaces, lines = append(spaces, s), append(lines, "netns add "+string(s))
	}
	if err := Space("").IP(ctx, lines...); err != nil {
		return nil, errors.Join(err, RemoveSpaces(spaces))
	}
	return spaces, nil
}

// explain names the usual reason of a failure: where the names of namespaces are, or in one.
func (s Space) explain(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "not permitted"), strings.Contains(text, "denied"):
		return fmt.Errorf("%w (%w)", ErrNotRoot, err)
	case s != "":
		return fmt.Errorf("%w (this needs a writable /proc/sys, and the kernel may lack veth, bridge, sch_tbf or "+
			"nf_tables with nat)", err)
	}
	return err
}

// RemoveSpaces removes namespaces. Another process may be faster. Processes in them must have
// ended: one that still runs keeps its namespace, without a name, until it ends.
func RemoveSpaces(spaces []Space) error {
	var errs []error
	for _, s := range spaces {
		err := Space("").IP(context.Background(), "netns delete "+string(s))
		if _, gone := os.Lstat(s.path()); !errors.Is(gone, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// clean removes the namespaces of that name whose processes are gone, and says which.
func clean(name string) (left []Space, err error) {
	all, _ := filepath.Glob(filepath.Join(namespaces, name+"-*")) // the pattern has no faults
	for _, path := range all {
		s := Space(filepath.Base(path))
		if owner := s.owner(name); owner != "" && !Alive(owner) {
			left = append(left, s)
		}
	}
	return left, RemoveSpaces(left)
}

// owner is the ID of the process that made a namespace of that name.
func (s Space) owner(name string) (pid string) {
	parts := regexp.MustCompile(`^` + name + `-([1-9]\d*)-\d+-\d+$`).FindStringSubmatch(string(s))
	if parts == nil {
		return ""
	}
	return parts[1]
}

// Alive says whether the process with an ID runs. One that has ended, and whose parent has not
// asked how, is a zombie with a number still.
func Alive(pid string) bool {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	return !errors.Is(err, os.ErrNotExist) && !bytes.Contains(status, []byte("\nState:\tZ"))
}

// Place makes cmd, which has not been started, run in the namespace. The process is the command
// itself: its ID and its signals are not affected. It needs nsenter, of util-linux.
func (s Space) Place(cmd *exec.Cmd) error {
	if cmd.Err != nil || s == "" {
		return cmd.Err // the command was not found
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("lab: %w: install util-linux", err)
	}
	// nsenter replaces itself with the command.
	args := []string{nsenter, "--net=" + s.path(), "--", cmd.Path}
	cmd.Path, cmd.Args = nsenter, append(args, cmd.Args[1:]...)
	return nil
}

// IP has `ip` carry out lines, one after the other until one fails.
func (s Space) IP(ctx context.Context, lines ...string) error {
	return s.Run(ctx, strings.Join(lines, "\n")+"\n", "ip", "-batch", "-")
}

// Run runs a program in the namespace to its end.
func (s Space) Run(ctx context.Context, input, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	if cmd.Err != nil {
		from := "iproute2"
		if program == "nft" {
			from = "nftables"
		}
		return fmt.Errorf("lab: %w: install %s", cmd.Err, from)
	}
	if err := s.Place(cmd); err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return s.explain(fmt.Errorf("lab: %v: %w: %s", cmd.Args, err, bytes.TrimSpace(out)))
	}
	return nil
}
