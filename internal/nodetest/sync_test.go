package nodetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Sync takes every loop's parameters to the outer step of what all have trained: with SGD at a rate
// of 1, to their mean by weight.
func TestSyncIsTheOuterStep(t *testing.T) {
	spec := Spec(3, 2)
	spec.Outer, spec.OuterLR, spec.Momentum, spec.MinPeers = "sgd", "1", "", 2
	spec.Aggregator, spec.TrimPermille = "mean", 0
	Run(t, spec, 2, func(s *Swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *Peer) error {
			params, own := make([]float32, BowlElements), p.Host%2
			_, err := n.Anchor(ctx, params)
			for err == nil {
				before := slices.Clone(params)
				for i := range params {
					if i%2 == own { // equal norms: nothing is clipped
						params[i] += 4
					}
				}
				err = n.Sync(ctx, params, []uint64{20, 60}[own])
				for i, x := range params {
					moved, want := x-before[i], []float32{1, 3}[i%2]
					if moved < want-.01 || moved > want+.01 {
						t.Errorf("element %d moved by %v, want %v, the mean of 0 and 4 by weights of 20 and 60", i,
							moved, want)
						break
					}
				}
			}
			return Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
	})
}

// givesUp is a loop that gives a Sync up after its offer for slot 2, and does after. Meanwhile the
// other peers are still at their inner steps for slot 2, and its offer stands.
func givesUp(
	s *Swarm, after func(ctx context.Context, n *p2pdiloco.Node, params []float32) error,
) func(context.Context, *p2pdiloco.Node, *Peer) error {
	return func(ctx context.Context, n *p2pdiloco.Node, p *Peer) error {
		params := make([]float32, BowlElements)
		_, err := n.Anchor(ctx, params)
		for err == nil {
			p.Descend(params)
			if task, _ := n.Task(); p == s.Peers[0] && task.Slot == 2 {
				soon, stop := context.WithTimeout(ctx, time.Second)
				if err := n.Sync(soon, params, 20); !errors.Is(err, context.DeadlineExceeded) {
					s.T.Errorf("Sync with too little time: %v", err)
				}
				stop()
				if err := after(ctx, n, params); err != nil {
					return Ended(err)
				}
				continue
			}
			if p != s.Peers[0] {
				time.Sleep(2 * time.Second)
			}
			err = n.Sync(ctx, params, 20)
		}
		return Ended(err)
	}
}

// What a Sync that is given up has offered counts once, also if it is called again for the same
// parameters when the slot has closed, and the run takes what is stale: the second one only waits.
// The same bytes counted twice.
func TestASyncThatIsCalledAgainCountsOnce(t *testing.T) {
	for name, closed := range map[string]bool{"before the slot has closed": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			spec := Spec(5, 2)
			spec.Discount, spec.MinPeers = []uint64{1000, 500}, 2
			Run(t, spec, 2, func(s *Swarm) {
				seen := make(map[p2pdiloco.Root]uint64)
				s.Peers[1].OnEvent = func(e p2pdiloco.Event) {
					if e.Name != "slot.applied" {
						return
					}
					record, _ := s.Peers[1].Ledger().Record(e.Fields["height"].(uint64))
					for _, c := range record.Record.Contributions {
						if before, again := seen[c.Root]; again {
							t.Errorf("slot %d lists what slot %d listed", record.Record.Slot, before)
						}
						seen[c.Root] = record.Record.Slot
					}
				}
				s.OwnLoops(givesUp(s, func(ctx context.Context, n *p2pdiloco.Node, params []float32) error {
					if closed {
						s.Reach(2, s.Peers[0])
					}
					return n.Sync(ctx, params, 20)
				}))
				s.Start(s.Peers...)
				s.Finish(2*time.Minute, s.Peers...)
				if got := s.Contributions(s.Peers[0]); len(got) != 5 {
					t.Errorf("it contributed to slots %v, want all 5", got)
				}
			})
		})
	}
}

// Anchor after a Sync that was given up waits for the slot of its offer, as it promises: what would
// be trained from the anchor before that is too stale when it is offered.
func TestAnchorWaitsForAnOffer(t *testing.T) {
	spec := Spec(5, 2)
	spec.MinPeers = 2
	Run(t, spec, 2, func(s *Swarm) {
		s.OwnLoops(givesUp(s, func(ctx context.Context, n *p2pdiloco.Node, params []float32) error {
			if at, err := n.Anchor(Expired(), params); !errors.Is(err, context.Canceled) {
				t.Errorf("Anchor when the time is over: slot %d, %v", at, err)
			}
			at, err := n.Anchor(ctx, params)
			if at != 2 {
				t.Errorf("Anchor after an offer for slot 2: slot %d", at)
			}
			return err
		}))
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(s.Peers[0]); len(got) != 5 {
			t.Errorf("it contributed to slots %v, want all 5", got)
		}
	})
}

// The task says how data is divided, and progress reaches the others.
func TestTaskAndProgressOfAnOwnLoop(t *testing.T) {
	Once(t, 2, 2, func(s *Swarm) {
		s.Spec.MinPeers = 2
		ranks := make(chan int, 8)
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *Peer) error {
			if _, ok := n.Task(); ok || n.Status().Task != nil {
				t.Error("a task before the first anchor")
			}
			n.Progress(5) // the others are not told of it
			params := make([]float32, BowlElements)
			slot, err := n.Anchor(ctx, params)
			for err == nil {
				task, ok := n.Task()
				status := n.Status().Task
				if slot > 0 {
					ranks <- status.Rank // the founder is the only member for a while
				}
				if !ok || task.Slot != slot+1 || task.Steps != 20 || slot > 0 && len(task.Members) != 2 ||
					status.Slot != task.Slot || status.Members[status.Rank] != n.Self() {
					t.Errorf("task %+v, in the status %+v", task, status)
				}
				time.Sleep(time.Second) // of the bubble's time
				if at := n.Progress(13); at != (p2pdiloco.Progress{Step: slot*20 + 13, TotalSteps: 2 * 20}) {
					t.Errorf("slot %d: the run is at %+v", slot, at)
				}
				time.Sleep(4 * time.Second) // the next ALIVE, after 3.2 s while idle
				if other := s.Member(p, s.Peers[0]).Steps; p != s.Peers[0] && other != 13 {
					t.Errorf("slot %d: the other's steps are %d", task.Slot, other)
				}
				time.Sleep(time.Second)
				p.Descend(params)
				r, beginErr := n.Begin(params, 20)
				if beginErr != nil {
					return beginErr
				}
				slot, err = r.Finish(ctx, params)
			}
			if at := n.Progress(0); at.Share() != 1 {
				t.Errorf("after its end the run is at %+v", at)
			}
			return Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if close(ranks); sum(ranks) != 1 {
			t.Error("the ranks are not 0 and 1")
		}
	})
}

func sum(numbers <-chan int) (total int) {
	for n := range numbers {
		total += n
	}
	return total
}

// Close ends a round that waits, and begins no more.
func TestCloseEndsARound(t *testing.T) {
	Once(t, 3, 2, func(s *Swarm) {
		s.Spec.MinPeers = 2
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *Peer) error {
			params := make([]float32, BowlElements)
			_, err := n.Anchor(ctx, params)
			if err != nil || p == s.Peers[1] {
				<-ctx.Done() // it never contributes
				return err
			}
			r, err := n.Begin(params, 1)
			if err != nil {
				return err
			}
			select {
			case <-r.Done():
				t.Errorf("the slot closed without the other: %v", r.Err())
			case <-time.After(time.Second):
			}
			if r.Err() != nil {
				t.Errorf("an error of a round that is not done: %v", r.Err())
			}
			_ = n.Close()
			<-r.Done()
			if _, err := r.Finish(ctx, params); !errors.Is(err, p2pdiloco.ErrClosed) ||
				!errors.Is(r.Err(), p2pdiloco.ErrClosed) {
				t.Errorf("Finish after Close: %v", err)
			}
			if _, err := n.Begin(params, 1); !errors.Is(err, p2pdiloco.ErrClosed) {
				t.Errorf("Begin after Close: %v", err)
			}
			return nil
		})
		s.Start(s.Peers...)
		if err := s.Outcome(s.Peers[0], time.After(time.Minute)); err != nil {
			t.Error(err)
		}
	})
}
