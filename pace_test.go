package p2pdiloco

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
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
			// Nobody waits for a loop of one's own before its first Anchor.
			if got := s.contributions(p); len(got) != 5 && (p != loop || len(got) != 4) {
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

// A contribution that was offered and could not be used counts in the next slot, if it is not too stale: its bytes are kept.
func TestAnOfferThatWasLeftOutCountsInTheNextSlot(t *testing.T) {
	spec := simSpec(6, 3)
	spec.Discount = []uint64{1000, 500}
	inSim(t, 10*time.Millisecond, spec, 3, func(s *swarm) {
		p := s.peers[1]
		// Its bytes of slot 2 are not what it offered until the slot is over; then it offers nothing new until slot 3 is over, too.
		p.drive = func(ctx context.Context, n *Node) error {
			var garbled *allreduce.Contribution
			return contributing(ctx, n, func(task Task, c *allreduce.Contribution) {
				if task.Slot == 2 {
					garbled = c
					garble(c)
				}
			}, func(task Task) {
				if task.Slot == 2 {
					garble(garbled)
					n.Status() // takes the lock that the ledger's loop takes before it has the bytes read again
					s.reach(3, p)
				}
			})
		}
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		if got := s.contributions(p); !slices.Equal(got, []uint64{1, 3, 4, 5, 6}) {
			t.Errorf("it contributed to slots %v, want all but 2", got)
		}
	})
}

// The only peer with a trainer is dropped while its contribution stands, and comes back: the slot closes with it all the same.
func TestAnOfferSurvivesThatItsPeerIsDropped(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(5, 3), 3, func(s *swarm) {
		for _, p := range s.peers[:2] {
			p.config = withoutTrainer
		}
		worker := s.peers[2]
		s.net.Cut(0, worker.host) // it cannot found the run
		s.start(s.peers[:2]...)
		s.until(time.Minute, "founded", func() bool { return s.peers[0].had("run.joined") || s.peers[1].had("run.joined") })
		s.net.Heal(0, worker.host)
		once := false
		worker.on = func(e Event) {
			if e.Name == "slot.planned" && e.Fields["slot"] == uint64(3) && !once {
				once = true
				s.net.Isolate(worker.host)
			}
		}
		s.start(worker)
		s.until(time.Minute, "dropped", func() bool { return s.peers[0].had("peer.left") })
		s.net.Rejoin(worker.host)
		s.finish(2*time.Minute, s.peers...)
	})
}
