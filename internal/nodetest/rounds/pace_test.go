package rounds

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// ownLoop drives a peer as a program with its own training loop does.
func ownLoop(target float32, step time.Duration) func(context.Context, *p2pdiloco.Node) error {
	return func(ctx context.Context, n *p2pdiloco.Node) error {
		b := &nodetest.Bowl{Target: target, X: make([]float32, nodetest.BowlElements)}
		_, err := n.Anchor(ctx, b.X)
		for err == nil {
			for range n.Spec().InnerSteps {
				b.Step()
				time.Sleep(step)
			}
			err = n.Sync(ctx, b.X, n.Spec().InnerSteps)
		}
		if errors.Is(err, p2pdiloco.ErrRunEnded) {
			return nil
		}
		return err
	}
}

// Peers that drive a trainer, peers with a loop of their own, and a peer that only votes, in one
// run.
func TestTrainersLoopsAndVotersTogether(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(5, 4), 4, func(s *nodetest.Swarm) {
		loop, voter := s.Peers[2], s.Peers[3]
		loop.Config, loop.Main = nodetest.WithoutTrainer, ownLoop(7, 10*time.Millisecond)
		voter.Config = nodetest.WithoutTrainer
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
		for _, p := range s.But(voter) {
			// Nobody waits for a loop of one's own before its first Anchor.
			if got := s.Contributions(p); len(got) != 5 && (p != loop || len(got) != 4) {
				t.Errorf("host %d contributed to slots %v, want all 5", p.Host, got)
			}
		}
		if s.Contributed(voter) {
			t.Error("the peer without a trainer contributed")
		}
	})
}

// A straggler does not hold up the slots: they close without it, and it goes on from the new
// anchor.
func TestAStragglerDoesNotHoldUpTheSlots(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 4), 4, func(s *nodetest.Swarm) {
		slow := s.Peers[1]
		s.Pace(20 * time.Millisecond)
		// 12 s a round; the grace window is 5 s
		slow.Trainer.(*nodetest.Bowl).Pace = 600 * time.Millisecond
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(slow); len(got) > 0 {
			t.Errorf("the straggler contributed to slots %v", got)
		}
		for _, p := range s.But(slow) {
			if got := s.Contributions(p); len(got) != 6 {
				t.Errorf("host %d contributed to slots %v, want all 6", p.Host, got)
			}
			if p.Had("peer.left") {
				t.Error("the straggler was dropped: it must stay a member")
			}
		}
	})
}

// With a discount table, what comes late counts in the next slot.
func TestALateContributionCountsInTheNextSlot(t *testing.T) {
	spec := nodetest.Spec(6, 4)
	spec.Discount = []uint64{1000, 500}
	nodetest.Run(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
		slow := s.Peers[1]
		s.Pace(20 * time.Millisecond)
		// 7 s a round: the window of the first slot closes at 5.4 s
		slow.Trainer.(*nodetest.Bowl).Pace = 350 * time.Millisecond
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(slow); len(got) < 2 || slices.Contains(got, 1) {
			t.Errorf("the straggler contributed to slots %v, want some after the first", got)
		}
	})
}

// The only peer with a trainer is dropped while its contribution stands, and comes back: the slot
// closes with it all the same.
func TestAnOfferSurvivesThatItsPeerIsDropped(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(5, 3), 3, func(s *nodetest.Swarm) {
		for _, p := range s.Peers[:2] {
			p.Config = nodetest.WithoutTrainer
		}
		worker := s.Peers[2]
		s.Net.Cut(0, worker.Host) // it cannot found the run
		s.Start(s.Peers[:2]...)
		s.Until(time.Minute, "founded", func() bool {
			return s.Peers[0].Had("run.joined") ||
				s.Peers[1].Had("run.joined")
		})
		s.Net.Heal(0, worker.Host)
		once := false
		worker.OnEvent = func(e p2pdiloco.Event) {
			if e.Name == "slot.planned" && e.Fields["slot"] == uint64(3) && !once {
				once = true
				s.Net.Isolate(worker.Host)
			}
		}
		s.Start(worker)
		s.Until(time.Minute, "dropped", func() bool { return s.Peers[0].Had("peer.left") })
		s.Net.Rejoin(worker.Host)
		s.Finish(2*time.Minute, s.Peers...)
	})
}
