package p2pdiloco

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// simPeer is one peer of a swarm, over all its restarts: what it did and has on disk outlives its process.
type simPeer struct {
	host      int
	boot      int // the host whose address it starts from
	dir       string
	trainer   Trainer
	config    func(*Config)                      // changes what Join is given, if set
	drive     func(context.Context, *Node) error // what the process does once it has joined; Run if nil
	forgetful bool                               // keeps no events: they would be what grows
	far       bool                               // its network is set up for the internet
	tune      func(*p2p.Config)                  // changes that, if set
	on        func(Event)                        // is told of every event, if set, from the goroutine that it happens on

	node    atomic.Pointer[Node]
	network *p2p.Network
	cancel  context.CancelFunc
	done    chan error // what became of the process that runs now; nil if none does
	mu      struct {
		sync.Mutex
		events []Event
		roots  map[uint64]Root // state root by slot
	}
}

func (p *simPeer) process(ctx context.Context, spec Spec) error {
	cfg := Config{
		Spec: spec, Trainer: p.trainer, DataDir: p.dir, Network: p.network, Preset: PresetLAN, OnEvent: p.note, Logger: testLogger(p.host),
	}
	if p.config != nil {
		p.config(&cfg)
	}
	node, err := Join(ctx, cfg)
	if err != nil {
		return err
	}
	node.abrupt = true // it is closed as if its process were killed
	p.node.Store(node)
	if p.drive != nil {
		return p.drive(ctx, node)
	}
	return node.Run(ctx)
}

func testLogger(host int) *slog.Logger {
	if os.Getenv("P2PDILOCO_TEST_LOG") == "" {
		return nil
	}
	h := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(h).With("host", host)
}

// note takes an event in.
func (p *simPeer) note(e Event) {
	p.mu.Lock()
	if !p.forgetful {
		p.mu.events = append(p.mu.events, e)
	}
	switch e.Name {
	case "slot.applied", "state.synced":
		if p.forgetful {
			break
		}
		p.mu.roots[e.Fields["slot"].(uint64)] = e.Fields["state_root"].(Root)
	case "run.switched", "state.diverged": // what was applied before is of another chain, or wrong
		clear(p.mu.roots)
	}
	p.mu.Unlock()
	if p.on != nil {
		p.on(e)
	}
}

// events are those of a name that the peer has had.
func (p *simPeer) events(name string) []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.mu.events), func(e Event) bool { return e.Name != name })
}

func (p *simPeer) had(name string) bool { return len(p.events(name)) > 0 }

// states are the roots by slot of all states that the peer has held.
func (p *simPeer) states() map[uint64]Root {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.mu.roots)
}

// applied is the newest slot whose state the peer has held.
func (p *simPeer) applied() (newest uint64) {
	for s := range p.states() {
		newest = max(newest, s)
	}
	return newest
}

// contributed says whether a record lists a contribution of p.
func (s *swarm) contributed(p *simPeer) bool { return len(s.contributions(p)) > 0 }

// contributions lists the slots whose records list a contribution of p.
func (s *swarm) contributions(p *simPeer) (slots []uint64) {
	for _, q := range s.peers {
		for _, e := range q.events("slot.committed") {
			if slices.Contains(e.Fields["contributors"].([]PeerID), s.id(p)) && !slices.Contains(slots, e.Fields["slot"].(uint64)) {
				slots = append(slots, e.Fields["slot"].(uint64))
			}
		}
	}
	return slots
}

// contributedAfter says whether a record of a later slot lists p.
func (s *swarm) contributedAfter(p *simPeer, slotNumber uint64) bool {
	for _, at := range s.contributions(p) {
		if at > slotNumber {
			return true
		}
	}
	return false
}
