package nodetest

import (
	"context"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// ownLoop drives a peer as a program with its own training loop does.
func ownLoop(target float32, step time.Duration) func(context.Context, *p2pdiloco.Node) error {
	return func(ctx context.Context, n *p2pdiloco.Node) error {
		b := &Bowl{Target: target, X: make([]float32, BowlElements)}
		_, err := n.Anchor(ctx, b.X)
		for err == nil {
			for range n.Spec().InnerSteps {
				b.Step()
				time.Sleep(step)
			}
			err = n.Sync(ctx, b.X, n.Spec().InnerSteps)
		}
		return Ended(err)
	}
}

// Peers that drive a trainer, peers with a loop of their own, and a peer that only votes, in one
// run.
func TestTrainersLoopsAndVotersTogether(t *testing.T) {
	Once(t, 5, 4, func(s *Swarm) {
		loop, voter := s.Peers[2], s.Peers[3]
		loop.Config, loop.Main = WithoutTrainer, ownLoop(7, 10*time.Millisecond)
		voter.Config = WithoutTrainer
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		if got := s.Member(s.Peers[0], voter); got.State != "voting" {
			t.Errorf("the peer without a trainer is %+v", got)
		}
		s.Finish(time.Minute, s.Peers...)
		for _, p := range s.But(voter) {
			// Nobody waits for a loop of one's own before its first Anchor.
			if got := s.Contributions(p); len(got) != 5 && (p != loop || len(got) != 4) {
				t.Errorf("host %d contributed to slots %v, want all 5", p.Host, got)
			}
		}
		if s.ContributedAfter(voter, 0) {
			t.Error("the peer without a trainer contributed")
		}
	})
}

// timed is a trainer that notes when its newest inner steps ended.
type timed struct {
	*Bowl
	ended time.Time
}

func (x *timed) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	defer func() { x.ended = time.Now() }()
	return x.Bowl.Train(ctx, task)
}

// A straggler stops its inner steps once the last slot is applied here, also in a run that takes
// what is stale: no slot is left that would.
func TestNobodyTrainsAfterTheLastSlot(t *testing.T) {
	Once(t, 3, 3, func(s *Swarm) {
		s.Spec.Discount = []uint64{1000, 500}
		slow := s.Peers[1]
		trainer := &timed{Bowl: slow.Trainer.(*Bowl)}
		trainer.Pace = 3 * time.Second // a minute a round; the grace window is 5 s
		slow.Trainer = trainer
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		applied := slow.Events("slot.applied")
		if late := trainer.ended.Sub(applied[len(applied)-1].Time); late < 0 || late > time.Millisecond {
			t.Errorf("it trained for %v after the last slot", late)
		}
	})
}

// The only peer with a trainer is dropped while its contribution stands, and comes back: the slot
// closes with it all the same.
func TestAnOfferSurvivesThatItsPeerIsDropped(t *testing.T) {
	Once(t, 5, 3, func(s *Swarm) {
		for _, p := range s.Peers[:2] {
			p.Config = WithoutTrainer
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
