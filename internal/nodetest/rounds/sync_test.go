package rounds

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

func TestRoundsThatAreBegunAndFinished(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(4, 3), 3, func(s *nodetest.Swarm) {
		s.Spec.MinPeers = 3
		s.OwnLoops(nodetest.Rounds(t))
		s.Peers[2].Config, s.Peers[2].Main = nil, nil // one with a Trainer is among them
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if n := len(s.Contributions(p)); n != 4 {
				t.Errorf("host %d contributed to %d slots of 4", p.Host, n)
			}
		}
	})
}

// A Sync that is given up leaves its offer, and the next one starts from the same anchor or a later
// one.
func TestASyncThatIsGivenUp(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 2), 2, func(s *nodetest.Swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			params := make([]float32, nodetest.BowlElements)
			_, err := n.Anchor(ctx, params)
			for round := 0; err == nil; round++ {
				p.Descend(params)
				if p == s.Peers[0] && round == 1 {
					if err := n.Sync(nodetest.Expired(), params, 1); !errors.Is(err, context.Canceled) {
						t.Errorf("Sync with a context that has ended: %v", err)
					}
				}
				err = n.Sync(ctx, params, 20)
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
	})
}

func TestWhatIsNotFiniteIsNotOffered(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 2), 2, func(s *nodetest.Swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			params := make([]float32, nodetest.BowlElements)
			_, err := n.Anchor(ctx, params)
			for err == nil {
				anchor := slices.Clone(params)
				params[7] = float32(math.NaN())
				if r, err := n.Begin(params, 1); !errors.Is(err, p2pdiloco.ErrNotFinite) || r != nil {
					t.Errorf("Begin with a NaN: %v", err)
				}
				copy(params, anchor)
				p.Descend(params)
				err = n.Sync(ctx, params, 20)
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
	})
}

// The task says how data is divided, and progress reaches the others.
func TestTaskAndProgressOfAnOwnLoop(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(2, 2), 2, func(s *nodetest.Swarm) {
		s.Spec.MinPeers = 2
		ranks := make(chan int, 8)
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			if _, ok := n.Task(); ok || n.Status().Task != nil {
				t.Error("a task before the first anchor")
			}
			n.Progress(5) // the others are not told of it
			params := make([]float32, nodetest.BowlElements)
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
				n.Progress(13)
				time.Sleep(time.Second)
				if other := s.Peers[0]; p != other && stepsOf(n, s.ID(other)) != 13 {
					t.Errorf("slot %d: the other's steps are %d", task.Slot, stepsOf(n, s.ID(other)))
				}
				time.Sleep(time.Second)
				p.Descend(params)
				r, beginErr := n.Begin(params, 20)
				if beginErr != nil {
					return beginErr
				}
				slot, err = r.Finish(ctx, params)
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if close(ranks); sum(ranks) != 1 {
			t.Error("the ranks are not 0 and 1")
		}
	})
}

func stepsOf(n *p2pdiloco.Node, p p2pdiloco.PeerID) uint32 {
	for _, m := range n.Status().Members {
		if m.Peer == p {
			return m.Steps
		}
	}
	return 0
}

func sum(numbers <-chan int) (total int) {
	for n := range numbers {
		total += n
	}
	return total
}

// Close ends a round that waits, and begins no more.
func TestCloseEndsARound(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 2), 2, func(s *nodetest.Swarm) {
		s.Spec.MinPeers = 2
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			params := make([]float32, nodetest.BowlElements)
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
