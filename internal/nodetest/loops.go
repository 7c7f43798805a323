package nodetest

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

// OwnLoops makes the peers of a swarm programs with a loop of their own, without a Trainer.
func (s *Swarm) OwnLoops(loop func(context.Context, *p2pdiloco.Node, *Peer) error) {
	for _, p := range s.Peers {
		trainer := p.Trainer.(*Bowl)
		p.Config = func(c *p2pdiloco.Config) {
			c.Trainer, c.Spec.Layout = nil, trainer.Layout()
			c.Init = func(dst []float32) error { return trainer.Init(context.Background(), dst) }
		}
		p.Main = func(ctx context.Context, n *p2pdiloco.Node) error { return loop(ctx, n, p) }
	}
}

// Descend does the inner steps of such a program.
func (p *Peer) Descend(params []float32) {
	b := p.Trainer.(*Bowl)
	b.X = params
	for range 20 {
		b.Step()
	}
}

// Expired returns a context that has ended.
func Expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Ended returns err, or nil if that says that the run has ended well.
func Ended(err error) error {
	if errors.Is(err, p2pdiloco.ErrRunEnded) {
		return nil
	}
	return err
}

// Contributors returns the contributors that the record of a slot lists, in its order.
func (s *Swarm) Contributors(slotNumber uint64) []p2pdiloco.PeerID {
	for _, p := range s.Peers {
		for _, e := range p.Events("slot.committed") {
			if e.Fields["slot"] == slotNumber {
				return e.Fields["contributors"].([]p2pdiloco.PeerID)
			}
		}
	}
	return nil
}

// SameVectors fails the test unless two vectors have the same bits.
func SameVectors(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for j := range want {
		if math.Float32bits(got[j]) != math.Float32bits(want[j]) {
			t.Fatalf("%s: element %d is %v, want %v", what, j, got[j], want[j])
		}
	}
}

// Member returns what a peer's status says of another.
func (s *Swarm) Member(by, of *Peer) (m p2pdiloco.MemberStatus) {
	if n := by.Node.Load(); n != nil {
		for _, m := range n.Status().Members {
			if m.Peer == s.ID(of) {
				return m
			}
		}
	}
	return m
}

// WithoutTrainer changes a config to that of a program with a loop of its own.
func WithoutTrainer(c *p2pdiloco.Config) { c.Trainer, c.Spec.Layout = nil, (&Bowl{}).Layout() }
