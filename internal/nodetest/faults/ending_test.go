package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Those that come when the run is over get the final model from one that still serves: a newcomer,
// a member that was away at the end, and one that has ended already.
func TestAPeerThatComesAfterTheEnd(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 6, Peers: 4}, func(s *swarm) {
		keeper, away, ended := s.Peers[0], s.Peers[1], s.Peers[2]
		keeper.Main = nodetest.Stay
		s.Start(s.Peers...)
		s.Reach(2, away)
		s.Stop(away)
		s.Finish(2*time.Minute, s.Peers[2:]...)
		late := s.Add()
		final := make([]float32, nodetest.BowlElements)
		late.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
			if err := n.Run(ctx); err != nil {
				return err
			}
			at, err := n.Anchor(ctx, final)
			if at != s.Spec.LastSlot() || !errors.Is(err, p2pdiloco.ErrRunEnded) {
				s.T.Errorf("Anchor after the end: slot %d, %v", at, err)
			}
			return nil
		}
		late.Troubled.Store(true) // it contributes nothing
		s.Start(late, away, ended)
		s.Finish(time.Minute, late, away, ended)
		want := make([]float32, nodetest.BowlElements)
		keeper.Inside().Anchor(func(x []float32) { copy(want, x) })
		nodetest.SameVectors(s.T, "the final parameters", final, want)
	})
}
