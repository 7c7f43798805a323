package nodetest

import (
	"context"
	"errors"
	"math"
	"slices"
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

// Rounds is such a program: it uses begin and finish, and tries in between what must not be done.
func Rounds(t *testing.T) func(context.Context, *p2pdiloco.Node, *Peer) error {
	return func(ctx context.Context, n *p2pdiloco.Node, p *Peer) error {
		params := make([]float32, BowlElements)
		if _, err := n.Begin(params, 1); !errors.Is(err, p2pdiloco.ErrNoAnchor) {
			t.Errorf("Begin before Anchor: %v", err)
		}
		slot, err := n.Anchor(ctx, params)
		for err == nil {
			p.Descend(params)
			var r *p2pdiloco.Round
			if r, err = n.Begin(params, 20); err != nil {
				return err
			}
			clear(params) // they are free again
			early, finished := r.Finish(Expired(), params)
			// it was done already: in an overlapped mode there may be nothing to wait for
			if finished == nil || errors.Is(finished, p2pdiloco.ErrRunEnded) {
				slot, err = early, finished
				continue
			}
			if !errors.Is(finished, context.Canceled) {
				t.Errorf("Finish when the time was over: %v", finished)
			}
			_, wantOpen := n.Anchor(ctx, params)
			_, alsoOpen := n.Begin(params, 1)
			if !errors.Is(wantOpen, p2pdiloco.ErrRoundOpen) || !errors.Is(alsoOpen, p2pdiloco.ErrRoundOpen) ||
				!errors.Is(n.Sync(ctx, params, 1), p2pdiloco.ErrRoundOpen) {
				t.Errorf("Anchor and Begin before Finish: %v, %v", wantOpen, alsoOpen)
			}
			if _, err := r.Finish(ctx, params[1:]); !errors.Is(err, p2pdiloco.ErrLength) {
				t.Errorf("Finish with too short a vector: %v", err)
			}
			before := slot
			if slot, err = r.Finish(ctx, params); (err == nil || errors.Is(err, p2pdiloco.ErrRunEnded)) &&
				slot <= before {
				t.Errorf("slot %d after slot %d", slot, before)
			}
			if _, err := r.Finish(ctx, params); !errors.Is(err, p2pdiloco.ErrNoRound) {
				t.Errorf("Finish for the second time: %v", err)
			}
		}
		held := make([]float32, BowlElements)
		if errors.Is(err, p2pdiloco.ErrRunEnded) {
			if _, again := n.Anchor(ctx, held); !errors.Is(again, p2pdiloco.ErrRunEnded) ||
				!slices.Equal(held, params) {
				t.Errorf("the parameters at the end are not the run's: %v", again)
			}
		}
		return Ended(err)
	}
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

// Statuses returns the statuses of all peers.
func (s *Swarm) Statuses() (all []p2pdiloco.Status) {
	for _, p := range s.Peers {
		all = append(all, p.Node.Load().Status())
	}
	return all
}

// Member returns what a peer's status says of another.
func (s *Swarm) Member(by, of *Peer) (m p2pdiloco.MemberStatus) {
	if n := by.Node.Load(); n != nil {
		all := n.Status().Members
		if i := slices.IndexFunc(all, func(m p2pdiloco.MemberStatus) bool { return m.Peer == s.ID(of) }); i >= 0 {
			return all[i]
		}
	}
	return m
}

// WithoutTrainer changes a config to that of a program with a loop of its own.
func WithoutTrainer(c *p2pdiloco.Config) { c.Trainer, c.Spec.Layout = nil, BowlLayout() }
