package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrNotRoot says that this process may not make network namespaces.
var ErrNotRoot = errors.New("network namespaces and TUN devices need root: run this as root, or with sudo")

// A Lab is a set of nodes and the network between them. Its methods may be called from any
// goroutine; nodes are numbered from 0.
type Lab struct {
	hosts
	devices []device
	began   time.Time
	mu      struct {
		sync.Mutex
		fabric *fabric
		alarm  time.Duration // when the pump wakes by itself
		closed bool
	}
	wake    chan struct{} // tells the pump that something is due before its alarm
	done    chan struct{}
	packets sync.Pool
	wg      sync.WaitGroup
}

// A device is where a node's packets come out and go in.
type device interface {
	// read fills data of at least one and at most all packets, and says of how many. It waits;
	// Close ends it.
	read(batch []*packet) (int, error)
	write(data []byte) error
	Close() error
}

// New makes a lab, after removing what crashed owners of labs of this Name left. It fails with
// ErrNotRoot or, elsewhere than on Linux, with errors.ErrUnsupported. ctx ends the making only;
// Close ends the lab.
func New(ctx context.Context, cfg Config) (*Lab, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	cfg = cfg.withDefaults()
	spaces, err := NewSpaces(ctx, cfg.Name, cfg.Nodes)
	if err != nil {
		return nil, err
	}
	var devices []device
	for i, s := range spaces {
		d, err := openTun(s, cfg, i)
		if err != nil {
			return nil, fmt.Errorf("lab: %w", errors.Join(err, closeAll(devices), RemoveSpaces(spaces)))
		}
		devices = append(devices, d)
	}
	return start(cfg, spaces, devices), nil
}

func start(cfg Config, spaces []Space, devices []device) *Lab {
	l := &Lab{
		hosts: hosts{cfg, spaces}, devices: devices, began: time.Now(), wake: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	l.packets.New = func() any { return &packet{buf: make([]byte, cfg.MTU)} }
	l.mu.fabric = newFabric(cfg.Nodes, cfg.Link, cfg.Seed, l.put)
	l.wg.Go(l.pump)
	for i := range devices {
		l.wg.Go(func() { l.listen(i) })
	}
	return l
}

func closeAll(devices []device) error {
	var errs []error
	for _, d := range devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// Close takes the network down and removes the namespaces, in which processes must have ended.
func (l *Lab) Close() error {
	l.mu.Lock()
	closed := l.mu.closed
	l.mu.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	close(l.done)
	err := closeAll(l.devices)
	l.wg.Wait()
	return errors.Join(err, RemoveSpaces(l.spaces))
}

// SetLink changes node i's link.
func (l *Lab) SetLink(i int, link Link) error {
	if err := link.Validate(); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return l.change(func(f *fabric, now time.Duration) { f.setLink(now, i, link) }, i)
}

// Cut unplugs nodes: they reach nobody, and nobody reaches them.
func (l *Lab) Cut(nodes ...int) error {
	return l.change(func(f *fabric, _ time.Duration) {
		for _, i := range nodes {
			f.cuts.nodes[i] = true
		}
	}, nodes...)
}

// Mute cuts nodes off in one direction: what they send reaches nobody, and what others send reaches
// them.
func (l *Lab) Mute(nodes ...int) error {
	return l.change(func(f *fabric, _ time.Duration) {
		for _, i := range nodes {
			f.cuts.muted[i] = true
		}
	}, nodes...)
}

// CutPair keeps nodes i and j from reaching each other; both reach all others.
func (l *Lab) CutPair(i, j int) error {
	return l.change(func(f *fabric, _ time.Duration) { f.cuts.cutPair(i, j) }, i, j)
}

// Partition divides the nodes into groups that cannot reach each other, in place of an earlier
// partition. Nodes in none of the groups make up one more.
func (l *Lab) Partition(groups ...[]int) error {
	var all []int
	seen := make(map[int]bool)
	for _, g := range groups {
		for _, i := range g {
			if seen[i] {
				return fmt.Errorf("lab: node %d is in two groups of the partition", i)
			}
			seen[i] = true
		}
		all = append(all, g...)
	}
	return l.change(func(f *fabric, _ time.Duration) { f.cuts.partition(groups) }, all...)
}

// Heal takes back the cuts of the given nodes, of their pairs too; without any, all cuts and the
// partition. Links stay as they are.
func (l *Lab) Heal(nodes ...int) error {
	return l.change(func(f *fabric, _ time.Duration) {
		if len(nodes) == 0 {
			f.cuts.heal()
		}
		for _, i := range nodes {
			f.cuts.healNode(i)
		}
	}, nodes...)
}

// change does something to the fabric that concerns nodes.
func (l *Lab) change(do func(f *fabric, now time.Duration), nodes ...int) error {
	if err := l.check(nodes...); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return fmt.Errorf("lab: %w", net.ErrClosed)
	}
	now := time.Since(l.began)
	l.mu.fabric.advance(now) // what is due happens under the old rules
	do(l.mu.fabric, now)
	l.ring()
	return nil
}
