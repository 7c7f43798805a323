package p2pdiloco

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A member dies during the last slot, or between it and the closing record: the run ends for the others.
func TestAMemberDiesAtTheEnd(t *testing.T) {
	for _, event := range []string{"slot.planned", "slot.committed", "slot.applied"} {
		t.Run(event, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(3, 4), 4, func(s *swarm) {
				victim := s.whenLeader(3, event, func(p *simPeer) { s.net.Isolate(p.host) })
				s.start(s.peers...)
				s.killAndFinish(victim)
				for _, p := range s.but(victim.Load()) {
					if !p.had("run.done") {
						t.Errorf("host %d did not say that the run is over", p.host)
					}
				}
			})
		})
	}
}

// stay drives a peer that goes on serving after the run's end.
func stay(ctx context.Context, n *Node) error {
	if err := n.Run(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// A peer that comes after the end gets the final model from one that still serves.
func TestAPeerThatComesAfterTheEnd(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(3, 2), 2, func(s *swarm) {
		keeper := s.peers[0]
		keeper.drive = stay
		s.start(s.peers...)
		s.finish(time.Minute, s.peers[1])
		late := s.add()
		final := make([]float32, bowlElements)
		late.drive = func(ctx context.Context, n *Node) error {
			if err := n.Run(ctx); err != nil {
				return err
			}
			at, err := n.Anchor(ctx, final)
			if at != 3 || !errors.Is(err, ErrRunEnded) {
				t.Errorf("Anchor after the end: slot %d, %v", at, err)
			}
			return nil
		}
		s.start(late)
		s.finish(time.Minute, late)
		want := make([]float32, bowlElements)
		keeper.node.Load().worker.state.copyAnchor(want)
		if [bowlElements]float32(final) != [bowlElements]float32(want) {
			t.Error("the final parameters are not those of the run")
		}
	})
}

// A peer that was away at the end comes back from its disk and gets what it missed.
func TestAPeerThatComesBackAfterTheEnd(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(5, 3), 3, func(s *swarm) {
		away := s.peers[1]
		s.peers[0].drive = stay
		s.start(s.peers...)
		s.reach(2, away)
		s.stop(away)
		s.finish(time.Minute, s.peers[2])
		s.start(away)
		s.finish(time.Minute, away)
	})
}

// A run that is over is over after a restart, too.
func TestARestartAfterTheEnd(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(2, 2), 2, func(s *swarm) {
		s.start(s.peers...)
		s.finish(time.Minute, s.peers...)
		s.start(s.peers[0])
		s.finish(time.Minute, s.peers[0])
	})
}
