package p2pdiloco

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// embedded makes the peers of a swarm programs with a loop of their own, without a Trainer.
func (s *swarm) embedded(loop func(context.Context, *Node, *simPeer) error) {
	for _, p := range s.peers {
		trainer := p.trainer.(*bowl)
		p.config = func(c *Config) {
			c.Trainer, c.Spec.Layout = nil, trainer.Layout()
			c.Init = func(dst []float32) error { return trainer.Init(context.Background(), dst) }
		}
		p.drive = func(ctx context.Context, n *Node) error { return loop(ctx, n, p) }
	}
}

// descend is the inner steps of such a program.
func (p *simPeer) descend(params []float32) {
	b := p.trainer.(*bowl)
	b.x = params
	for range 20 {
		b.step()
	}
}

// rounds is such a program: it uses begin and finish, and tries in between what must not be done.
func rounds(t *testing.T) func(context.Context, *Node, *simPeer) error {
	return func(ctx context.Context, n *Node, p *simPeer) error {
		params := make([]float32, bowlElements)
		if _, err := n.Begin(params, 1); !errors.Is(err, ErrNoAnchor) {
			t.Errorf("Begin before Anchor: %v", err)
		}
		slot, err := n.Anchor(ctx, params)
		for err == nil {
			p.descend(params)
			var r *Round
			if r, err = n.Begin(params, 20); err != nil {
				return err
			}
			clear(params) // they are free again
			early, finished := r.Finish(expired(), params)
			if finished == nil || errors.Is(finished, ErrRunEnded) { // it was done already: in an overlapped mode there may be nothing to wait for
				slot, err = early, finished
				continue
			}
			if !errors.Is(finished, context.Canceled) {
				t.Errorf("Finish when the time was over: %v", finished)
			}
			_, wantOpen := n.Anchor(ctx, params)
			_, alsoOpen := n.Begin(params, 1)
			if !errors.Is(wantOpen, ErrRoundOpen) || !errors.Is(alsoOpen, ErrRoundOpen) || !errors.Is(n.Sync(ctx, params, 1), ErrRoundOpen) {
				t.Errorf("Anchor and Begin before Finish: %v, %v", wantOpen, alsoOpen)
			}
			if _, err := r.Finish(ctx, params[1:]); !errors.Is(err, ErrLength) {
				t.Errorf("Finish with too short a vector: %v", err)
			}
			before := slot
			if slot, err = r.Finish(ctx, params); (err == nil || errors.Is(err, ErrRunEnded)) && slot <= before {
				t.Errorf("slot %d after slot %d", slot, before)
			}
			if _, err := r.Finish(ctx, params); !errors.Is(err, ErrNoRound) {
				t.Errorf("Finish for the second time: %v", err)
			}
		}
		var held []float32
		if readErr := n.worker.state.read(func(_ position, vectors [][]float32) error { held = slices.Clone(vectors[0]); return nil }); readErr != nil {
			return readErr
		}
		if errors.Is(err, ErrRunEnded) && !slices.Equal(held, params) {
			t.Error("the parameters at the end are not the run's")
		}
		return ended(err)
	}
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// ended is err without the one that ends well.
func ended(err error) error {
	if errors.Is(err, ErrRunEnded) {
		return nil
	}
	return err
}

func TestRoundsThatAreBegunAndFinished(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(4, 3), 3, func(s *swarm) {
		s.spec.MinPeers = 3
		s.embedded(rounds(t))
		s.peers[2].config, s.peers[2].drive = nil, nil // one with a Trainer is among them
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		for _, p := range s.peers {
			if n := len(s.contributions(p)); n != 4 {
				t.Errorf("host %d contributed to %d slots of 4", p.host, n)
			}
		}
	})
}

// A Sync that is given up leaves its offer, and the next one starts from the same anchor or a later one.
func TestASyncThatIsGivenUp(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(3, 2), 2, func(s *swarm) {
		s.embedded(func(ctx context.Context, n *Node, p *simPeer) error {
			params := make([]float32, bowlElements)
			_, err := n.Anchor(ctx, params)
			for round := 0; err == nil; round++ {
				p.descend(params)
				if p == s.peers[0] && round == 1 {
					if err := n.Sync(expired(), params, 1); !errors.Is(err, context.Canceled) {
						t.Errorf("Sync with a context that has ended: %v", err)
					}
				}
				err = n.Sync(ctx, params, 20)
			}
			return ended(err)
		})
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
	})
}

func TestWhatIsNotFiniteIsNotOffered(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(3, 2), 2, func(s *swarm) {
		s.embedded(func(ctx context.Context, n *Node, p *simPeer) error {
			params := make([]float32, bowlElements)
			_, err := n.Anchor(ctx, params)
			for err == nil {
				anchor := slices.Clone(params)
				params[7] = float32(math.NaN())
				if r, err := n.Begin(params, 1); !errors.Is(err, ErrNotFinite) || r != nil {
					t.Errorf("Begin with a NaN: %v", err)
				}
				copy(params, anchor)
				p.descend(params)
				err = n.Sync(ctx, params, 20)
			}
			return ended(err)
		})
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
	})
}

// The task says how data is divided, and progress reaches the others.
func TestTaskAndProgressOfAnOwnLoop(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(2, 2), 2, func(s *swarm) {
		s.spec.MinPeers = 2
		ranks := make(chan int, 8)
		s.embedded(func(ctx context.Context, n *Node, p *simPeer) error {
			if _, ok := n.Task(); ok || n.Status().Task != nil {
				t.Error("a task before the first anchor")
			}
			if n.Progress(5); n.reported.Load() != nil {
				t.Error("progress before the first anchor is told to others")
			}
			params := make([]float32, bowlElements)
			slot, err := n.Anchor(ctx, params)
			for err == nil {
				task, ok := n.Task()
				status := n.Status().Task
				if slot > 0 {
					ranks <- status.Rank // who founds the run is the only member for a while
				}
				if !ok || task.Slot != slot+1 || task.Steps != 20 || slot > 0 && len(task.Members) != 2 || status.Slot != task.Slot || status.Members[status.Rank] != n.Self() {
					t.Errorf("task %+v, in the status %+v", task, status)
				}
				time.Sleep(time.Second) // of the bubble's time
				n.Progress(13)
				time.Sleep(time.Second)
				if other := s.peers[0]; p != other && stepsOf(n, s.id(other)) != 13 {
					t.Errorf("slot %d: the other's steps are %d", task.Slot, stepsOf(n, s.id(other)))
				}
				time.Sleep(time.Second)
				p.descend(params)
				r, beginErr := n.Begin(params, 20)
				if beginErr != nil {
					return beginErr
				}
				slot, err = r.Finish(ctx, params)
			}
			return ended(err)
		})
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		if close(ranks); sum(ranks) != 1 {
			t.Error("the ranks are not 0 and 1")
		}
	})
}

func stepsOf(n *Node, p PeerID) uint32 {
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
	inSim(t, 10*time.Millisecond, simSpec(3, 2), 2, func(s *swarm) {
		s.spec.MinPeers = 2
		s.embedded(func(ctx context.Context, n *Node, p *simPeer) error {
			params := make([]float32, bowlElements)
			_, err := n.Anchor(ctx, params)
			if err != nil || p == s.peers[1] {
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
			if _, err := r.Finish(ctx, params); !errors.Is(err, ErrClosed) || !errors.Is(r.Err(), ErrClosed) {
				t.Errorf("Finish after Close: %v", err)
			}
			if _, err := n.Begin(params, 1); !errors.Is(err, ErrClosed) {
				t.Errorf("Begin after Close: %v", err)
			}
			return nil
		})
		s.start(s.peers...)
		if err := s.outcome(s.peers[0], time.After(time.Minute)); err != nil {
			t.Error(err)
		}
	})
}
