package p2pdiloco

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// ownLoop drives a peer as a program with its own training loop does.
func ownLoop(target float32, step time.Duration) func(context.Context, *Node) error {
	return func(ctx context.Context, n *Node) error {
		b := &bowl{target: target, x: make([]float32, bowlElements)}
		_, err := n.Anchor(ctx, b.x)
		for err == nil {
			for range n.Spec().InnerSteps {
				b.step()
				time.Sleep(step)
			}
			err = n.Sync(ctx, b.x, n.Spec().InnerSteps)
		}
		if errors.Is(err, ErrRunEnded) {
			return nil
		}
		return err
	}
}

func withoutTrainer(c *Config) { c.Trainer, c.Spec.Layout = nil, bowlLayout() }

// Peers that drive a trainer, peers with a loop of their own, and a peer that only votes, in one run.
func TestTrainersLoopsAndVotersTogether(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(5, 4), 4, func(s *swarm) {
		loop, voter := s.peers[2], s.peers[3]
		loop.config, loop.drive = withoutTrainer, ownLoop(7, 10*time.Millisecond)
		voter.config = withoutTrainer
		s.start(s.peers...)
		s.finish(time.Minute, s.peers...)
		for _, p := range s.but(voter) {
			if got := s.contributions(p); len(got) != 5 {
				t.Errorf("host %d contributed to slots %v, want all 5", p.host, got)
			}
		}
		if s.contributed(voter) {
			t.Error("the peer without a trainer contributed")
		}
	})
}

// A straggler does not hold up the slots: they close without it, and it goes on from the new anchor.
func TestAStragglerDoesNotHoldUpTheSlots(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 4), 4, func(s *swarm) {
		slow := s.peers[1]
		s.pace(20 * time.Millisecond)
		slow.trainer.(*bowl).pace = 600 * time.Millisecond // 12 s a round; the grace window is 5 s
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		if got := s.contributions(slow); len(got) > 0 {
			t.Errorf("the straggler contributed to slots %v", got)
		}
		for _, p := range s.but(slow) {
			if got := s.contributions(p); len(got) != 6 {
				t.Errorf("host %d contributed to slots %v, want all 6", p.host, got)
			}
			if p.had("peer.left") {
				t.Error("the straggler was dropped: it must stay a member")
			}
		}
	})
}

// With a discount table, what comes late counts in the next slot.
func TestALateContributionCountsInTheNextSlot(t *testing.T) {
	spec := simSpec(6, 4)
	spec.Discount = []uint64{1000, 500}
	inSim(t, 10*time.Millisecond, spec, 4, func(s *swarm) {
		slow := s.peers[1]
		s.pace(20 * time.Millisecond)
		slow.trainer.(*bowl).pace = 350 * time.Millisecond // 7 s a round: the window of the first slot closes at 5.4 s
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		if got := s.contributions(slow); len(got) < 2 || slices.Contains(got, 1) {
			t.Errorf("the straggler contributed to slots %v, want some after the first", got)
		}
	})
}

// A contribution that was offered and could not be used is offered again for the next slot, if it is not too stale, with its bytes.
func TestAnOfferThatWasLeftOutCountsInTheNextSlot(t *testing.T) {
	spec := simSpec(4, 3)
	spec.Discount = []uint64{1000, 500}
	inSim(t, 10*time.Millisecond, spec, 3, func(s *swarm) {
		p := s.peers[1]
		p.on = func(e Event) { // it vanishes in the reduction of slot 2, and comes back for slot 3
			if e.Name == "slot.planned" && e.Fields["slot"] == uint64(2) {
				s.net.Isolate(p.host)
			}
		}
		s.start(s.peers...)
		s.reach(2, s.but(p)...)
		s.net.Rejoin(p.host)
		s.finish(2*time.Minute, s.peers...)
	})
}
