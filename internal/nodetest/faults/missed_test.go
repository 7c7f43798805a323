package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// deafStream gives nothing to its reader while the peer is deaf.
type deafStream struct {
	wire.Stream
	deaf *atomic.Bool
}

func (d deafStream) Read(b []byte) (int, error) {
	n, err := d.Stream.Read(b)
	if d.deaf.Load() {
		return 0, errors.New("no byte comes")
	}
	return n, err
}

// All peers offer for the last slot, and end and go while one of them cannot get its outcome. That
// one ends with ErrMissed, be it in Run, in the midst of its inner steps, which it does not finish,
// or in a loop of its own. It waited for ever for the slot of its own offer.
func TestAPeerWithoutTheLastOutcomeEnds(t *testing.T) {
	for name, c := range map[string]struct {
		modes   string
		prepare func(s *swarm, victim *peer)
	}{
		"Run": {"", func(*swarm, *peer) {}},
		"its steps": {"sync", func(_ *swarm, victim *peer) {
			victim.Trainer.(*nodetest.Bowl).Pace = time.Minute // 20 of them a round
		}},
		"Sync": {"sync", func(s *swarm, _ *peer) {
			s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *peer) error {
				params := make([]float32, nodetest.BowlElements)
				_, err := n.Anchor(ctx, params)
				for err == nil {
					p.Descend(params)
					err = n.Sync(ctx, params, 20)
				}
				return err
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			// nobody audits what it offered
			nodetest.Play(t, scenario{Slots: 2, Peers: 4, Modes: c.modes, Trusts: "crash"}, func(s *swarm) {
				victim, last := s.Peers[1], s.Spec.LastSlot()
				var deaf atomic.Bool
				victim.Hooks = func(h *edge.Hooks) {
					h.Streams = func(_ string, _ bool, st wire.Stream) wire.Stream { return deafStream{st, &deaf} }
				}
				victim.OnEvent = func(e p2pdiloco.Event) {
					if e.Name == "slot.planned" && e.Fields["slot"] == last {
						deaf.Store(true)
					}
				}
				c.prepare(s, victim)
				s.Start(s.Peers...)
				s.Reach(last, s.But(victim)...)
				s.Until(time.Minute, "committed", func() bool { return victim.Ledger().View().Tip.Slot == last })
				s.Kill(s.But(victim)...)
				err := s.Outcome(victim, time.After(3*time.Minute))
				if !errors.Is(err, p2pdiloco.ErrMissed) || victim.Applied() >= last {
					s.T.Errorf("at slot %d of %d it ends with %v", victim.Applied(), last, err)
				}
			})
		})
	}
}
