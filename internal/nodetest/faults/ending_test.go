package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// A member dies during the last slot, or between it and the closing record: the run ends for the
// others.
func TestAMemberDiesAtTheEnd(t *testing.T) {
	for _, event := range []string{"slot.planned", "slot.committed", "slot.applied"} {
		t.Run(event, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 4), 4, func(s *nodetest.Swarm) {
				victim := s.WhenLeader(3, event, func(p *nodetest.Peer) { s.Net.Isolate(p.Host) })
				s.Start(s.Peers...)
				s.KillAndFinish(victim)
				for _, p := range s.But(victim.Load()) {
					if !p.Had("run.done") {
						t.Errorf("host %d did not say that the run is over", p.Host)
					}
				}
			})
		})
	}
}

// A peer that comes after the end gets the final model from one that still serves.
func TestAPeerThatComesAfterTheEnd(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 2), 2, func(s *nodetest.Swarm) {
		keeper := s.Peers[0]
		keeper.Main = nodetest.Stay
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers[1])
		late := s.Add()
		final := make([]float32, nodetest.BowlElements)
		late.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
			if err := n.Run(ctx); err != nil {
				return err
			}
			at, err := n.Anchor(ctx, final)
			if at != 3 || !errors.Is(err, p2pdiloco.ErrRunEnded) {
				t.Errorf("Anchor after the end: slot %d, %v", at, err)
			}
			return nil
		}
		s.Start(late)
		s.Finish(time.Minute, late)
		want := make([]float32, nodetest.BowlElements)
		keeper.Inside().Anchor(func(x []float32) { copy(want, x) })
		if [nodetest.BowlElements]float32(final) != [nodetest.BowlElements]float32(want) {
			t.Error("the final parameters are not those of the run")
		}
	})
}

// A peer that was away at the end comes back from its disk and gets what it missed.
func TestAPeerThatComesBackAfterTheEnd(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(5, 3), 3, func(s *nodetest.Swarm) {
		away := s.Peers[1]
		s.Peers[0].Main = nodetest.Stay
		s.Start(s.Peers...)
		s.Reach(2, away)
		s.Stop(away)
		s.Finish(time.Minute, s.Peers[2])
		s.Start(away)
		s.Finish(time.Minute, away)
	})
}

// A run that is over is over after a restart, too.
func TestARestartAfterTheEnd(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(2, 2), 2, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
		s.Start(s.Peers[0])
		s.Finish(time.Minute, s.Peers[0])
	})
}
