package nodetest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Peer is one peer of a swarm, over all its restarts: what it did and has on disk outlives its
// process.
type Peer struct {
	Host    int
	Boot    int // the host whose address it starts from
	Dir     string
	Trainer p2pdiloco.Trainer
	Config  func(*p2pdiloco.Config) // changes what Join is given, if set
	// what the process does once it has joined; Run if nil
	Main  func(context.Context, *p2pdiloco.Node) error
	Hooks func(*edge.Hooks) // changes the node's hooks, if set
	// its node saves at Close what there is to save, and is not killed
	Graceful bool
	Preset   string // of its node and of its network
	Relay    p2p.RelayConfig
	Troubled atomic.Bool // something was done to it: it may be dropped
	// is told of every event, if set, from the goroutine that it happens on
	OnEvent func(p2pdiloco.Event)

	Node    atomic.Pointer[p2pdiloco.Node]
	opened  atomic.Pointer[edge.Inside] // of the newest node
	Network *p2p.Network
	Cancel  context.CancelFunc
	Done    chan error // what became of the process that runs now; nil if none does
	mu      struct {
		sync.Mutex
		events []p2pdiloco.Event
		roots  map[uint64]p2pdiloco.Root // state root by slot
	}
}

// TakeNode takes the node away from its peer: it is about to end, and nobody looks at it any more.
func (p *Peer) TakeNode() *p2pdiloco.Node {
	p.opened.Store(nil)
	return p.Node.Swap(nil)
}

// Process does the work of a peer's process: it joins, runs and ends with the run.
func (p *Peer) Process(ctx context.Context, spec p2pdiloco.Spec) error {
	cfg := p2pdiloco.Config{
		Spec: spec, Trainer: p.Trainer, DataDir: p.Dir, Network: p.Network, Preset: p.Preset,
		OnEvent: p.Note, Logger: testLogger(p.Host),
	}
	if p.Config != nil {
		p.Config(&cfg)
	}
	p.opened.Store(nil)
	hooks := &edge.Hooks{
		Disk:   unsynced{disk.OS},
		Abrupt: !p.Graceful,
		Opened: func(i edge.Inside) { p.opened.Store(&i) },
	}
	if p.Hooks != nil {
		p.Hooks(hooks)
	}
	node, err := p2pdiloco.Join(edge.WithHooks(ctx, hooks), cfg)
	if err == nil {
		p.Node.Store(node)
		if p.Main != nil {
			return p.Main(ctx, node)
		}
		err = node.Run(ctx)
	}
	if !errors.Is(err, p2pdiloco.ErrGivenUp) {
		return err
	}
	if node != nil {
		_ = p.TakeNode().Close()
	}
	p.ForgetStates() // of another run
	return p.Process(ctx, spec)
}

// Ledger returns the ledger of the peer's node; nil while it has none.
func (p *Peer) Ledger() *membership.Driver {
	if i := p.opened.Load(); i != nil {
		return i.Ledger
	}
	return nil
}

// Inside returns what a test may see of the peer's node, which must be open.
func (p *Peer) Inside() *edge.Inside { return p.opened.Load() }

// ForgetStates forgets which states the peer has held: they are known to be wrong.
func (p *Peer) ForgetStates() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.mu.roots)
}

func testLogger(host int) *slog.Logger {
	if os.Getenv("P2PDILOCO_TEST_LOG") == "" {
		return nil
	}
	h := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(h).With("host", host)
}

// Note takes an event in.
func (p *Peer) Note(e p2pdiloco.Event) {
	p.mu.Lock()
	p.mu.events = append(p.mu.events, e)
	switch e.Name {
	case "slot.applied", "state.synced":
		p.mu.roots[e.Fields["slot"].(uint64)] = e.Fields["state_root"].(p2pdiloco.Root)
	case "run.switched", "state.diverged": // what was applied before is of another chain, or wrong
		clear(p.mu.roots)
	}
	p.mu.Unlock()
	if p.OnEvent != nil {
		p.OnEvent(e)
	}
}

// Events returns the peer's events of a name.
func (p *Peer) Events(name string) []p2pdiloco.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.mu.events), func(e p2pdiloco.Event) bool { return e.Name != name })
}

// Had says whether the peer told of an event.
func (p *Peer) Had(name string) bool { return len(p.Events(name)) > 0 }

// States returns the roots, by slot, of all states that the peer has held.
func (p *Peer) States() map[uint64]p2pdiloco.Root {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.mu.roots)
}

// Applied returns the newest slot of which the peer has held the state.
func (p *Peer) Applied() (newest uint64) {
	for s := range p.States() {
		newest = max(newest, s)
	}
	return newest
}

// Contributions lists the slots whose records list a contribution of p.
func (s *Swarm) Contributions(p *Peer) (slots []uint64) {
	for _, q := range s.Peers {
		for _, e := range q.Events("slot.committed") {
			if slices.Contains(e.Fields["contributors"].([]p2pdiloco.PeerID), s.ID(p)) &&
				!slices.Contains(slots, e.Fields["slot"].(uint64)) {
				slots = append(slots, e.Fields["slot"].(uint64))
			}
		}
	}
	return slots
}

// ContributedAfter says whether a record of a later slot lists p.
func (s *Swarm) ContributedAfter(p *Peer, slotNumber uint64) bool {
	return slices.ContainsFunc(s.Contributions(p), func(at uint64) bool { return at > slotNumber })
}

// unsynced is a file system that syncs nothing: no power fails here, and disks are quick.
type unsynced struct{ disk.FS }

type unsyncedFile struct{ disk.File }

func (unsynced) SyncDir(string) error { return nil }
func (unsyncedFile) Sync() error      { return nil }

func (u unsynced) OpenFile(name string, flag int) (disk.File, error) {
	f, err := u.FS.OpenFile(name, flag)
	return unsyncedFile{f}, err
}

func (u unsynced) CreateTemp(dir, pattern string) (disk.File, error) {
	f, err := u.FS.CreateTemp(dir, pattern)
	return unsyncedFile{f}, err
}
