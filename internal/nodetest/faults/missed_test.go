package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// deafStream gives nothing to its reader while the peer is deaf.
type deafStream struct {
	wire.Stream
	deaf *atomic.Bool
}

var errDeaf = errors.New("no byte comes")

func (d deafStream) Read(b []byte) (int, error) {
	if d.deaf.Load() {
		return 0, errDeaf
	}
	n, err := d.Stream.Read(b)
	if d.deaf.Load() {
		return 0, errDeaf
	}
	return n, err
}

// withoutTheLastOutcome runs a swarm whose peers end and go while its second peer cannot get the
// last slot's outcome. It returns how the run ends for that peer. prepare may change the swarm.
func withoutTheLastOutcome(
	t *testing.T, mode string, prepare func(s *nodetest.Swarm, victim *nodetest.Peer),
) (how error) {
	spec := nodetest.Spec(2, 4)
	spec.Mode, spec.Trust = mode, p2pdiloco.TrustCrash // nobody audits what it offered
	if mode == p2pdiloco.ModeStreaming {
		spec.Fragments = 2
	}
	nodetest.RunNow(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
		victim, last := s.Peers[1], uint64(2)
		if mode == p2pdiloco.ModeStreaming {
			last = 4
		}
		var deaf atomic.Bool
		victim.Hooks = func(h *testhooks.Hooks) {
			h.Streams = func(_ string, _ bool, st wire.Stream) wire.Stream { return deafStream{st, &deaf} }
		}
		victim.OnEvent = func(e p2pdiloco.Event) {
			if e.Name == "slot.planned" && e.Fields["slot"] == last {
				deaf.Store(true)
			}
		}
		prepare(s, victim)
		s.Start(s.Peers...)
		s.Reach(last, s.But(victim)...)
		s.Until(time.Minute, "committed", func() bool { return victim.Ledger().View().Tip.Slot == last })
		s.Kill(s.But(victim)...)
		how = s.Outcome(victim, time.After(3*time.Minute))
		if victim.Applied() >= last {
			t.Errorf("it applied slot %d", victim.Applied())
		}
	})
	return how
}

// A peer that has offered for the last slot, and whose others end and go before it gets the
// outcome, ends with ErrMissed. It waited for ever for the slot of its own offer.
func TestAPeerWithoutTheLastOutcomeEnds(t *testing.T) {
	t.Parallel()
	for _, mode := range nodetest.Modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			err := withoutTheLastOutcome(t, mode, func(*nodetest.Swarm, *nodetest.Peer) {})
			if !errors.Is(err, p2pdiloco.ErrMissed) {
				t.Errorf("Run: %v", err)
			}
		})
	}
	for name, contribute := range map[string]func(context.Context, *p2pdiloco.Node, []float32) error{
		"Sync": func(ctx context.Context, n *p2pdiloco.Node, params []float32) error { return n.Sync(ctx, params, 20) },
		"Finish": func(ctx context.Context, n *p2pdiloco.Node, params []float32) error {
			r, err := n.Begin(params, 20)
			if err == nil {
				_, err = r.Finish(ctx, params)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := withoutTheLastOutcome(t, p2pdiloco.ModeSync, func(s *nodetest.Swarm, _ *nodetest.Peer) {
				s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
					params := make([]float32, nodetest.BowlElements)
					_, err := n.Anchor(ctx, params)
					for err == nil {
						p.Descend(params)
						err = contribute(ctx, n, params)
					}
					return err
				})
			})
			if !errors.Is(err, p2pdiloco.ErrMissed) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A peer that is in the midst of its inner steps then does not do the rest of them first.
func TestAPeerWithoutTheLastOutcomeEndsItsSteps(t *testing.T) {
	t.Parallel()
	err := withoutTheLastOutcome(t, p2pdiloco.ModeSync, func(s *nodetest.Swarm, victim *nodetest.Peer) {
		victim.Trainer.(*nodetest.Bowl).Pace = time.Minute // 20 of them a round
	})
	if !errors.Is(err, p2pdiloco.ErrMissed) {
		t.Errorf("Run: %v", err)
	}
}
