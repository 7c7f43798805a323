package p2pdiloco

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// streamed is a program with a loop of its own in mode streaming.
func streamed(ctx context.Context, n *Node, p *simPeer) error {
	params := make([]float32, n.Spec().Layout.Elements())
	_, err := n.Anchor(ctx, params)
	for err == nil {
		task, _ := n.Task()
		p.descendFor(params, place{task.Slot, task.Done}, task.Steps)
		var r *Round
		if r, err = n.Begin(params, (task.Done+uint64(task.Steps))*streamerOf(p).tokens); err != nil {
			return err
		}
		if task.Slot < n.Spec().LastSlot() {
			p.descendFor(params, place{task.Slot + 1, 0}, task.Delay)
		}
		_, err = r.Finish(ctx, params)
	}
	streamerOf(p).x = params
	return ended(err)
}

// descendFor is inner steps of such a program.
func (p *simPeer) descendFor(params []float32, at place, steps int) {
	l := streamerOf(p)
	if steps > 0 {
		l.lives[at] = slices.Clone(params)
	}
	l.x = params
	for range steps {
		time.Sleep(l.pace)
		l.step()
	}
}

// Programs with loops of their own and trainers are the same to each other, and to the replay.
func TestOwnLoopsInTheStream(t *testing.T) {
	spec := streamSpec(3, 3, 3)
	spec.InnerSteps, spec.FragmentDelay, spec.FragmentAlpha, spec.MinPeers = 10, "2", "0.5", 3
	spec.Aggregator, spec.Clip = "mean", "off"
	inSim(t, 10*time.Millisecond, spec, 3, func(s *swarm) {
		trainers := s.streaming()
		s.ownLoops(s.peers[:2], streamed)
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		r := newReplay(s, trainers)
		for slotNumber := uint64(1); slotNumber <= r.spec.LastSlot(); slotNumber++ {
			r.slot(t, slotNumber)
		}
		for _, p := range s.peers[:2] {
			same(t, "what a loop is left with", streamerOf(p).x, r.theta)
		}
	})
}

// ownLoops makes peers programs with a loop of their own, without a Trainer.
func (s *swarm) ownLoops(peers []*simPeer, loop func(context.Context, *Node, *simPeer) error) {
	for _, p := range peers {
		l := streamerOf(p)
		p.config = func(c *Config) {
			c.Trainer, c.Spec.Layout = nil, l.Layout()
			c.Init = func(dst []float32) error { return l.Init(context.Background(), dst) }
		}
		p.drive = func(ctx context.Context, n *Node) error { return loop(ctx, n, p) }
	}
}

// Sync by itself, with a NaN and with one that is given up: only Anchor leads on then.
func TestSyncInTheStream(t *testing.T) {
	inStream(t, 2, 2, 2, func(s *swarm) {
		s.ownLoops(s.peers, func(ctx context.Context, n *Node, p *simPeer) error {
			params := make([]float32, n.Spec().Layout.Elements())
			_, err := n.Anchor(ctx, params)
			for round := 0; err == nil; round++ {
				task, _ := n.Task()
				if want := 5; task.Steps != want || task.Done != 0 || task.Delay != 2 {
					s.t.Errorf("task %+v, want %d steps", task, want)
				}
				p.descendFor(params, place{task.Slot, 0}, task.Steps)
				if p == s.peers[0] && round == 1 {
					at := n.fragment(task.Slot).Ranges[0].Begin
					x := params[at]
					params[at] = float32(math.NaN())
					if err := n.Sync(ctx, params, 1); !errors.Is(err, ErrNotFinite) {
						s.t.Errorf("Sync with a NaN: %v", err)
					}
					params[at] = x
					if err := n.Sync(expired(), params, 1); !errors.Is(err, context.Canceled) {
						s.t.Errorf("Sync with a context that has ended: %v", err)
					}
					if err := n.Sync(ctx, params, 20); !errors.Is(err, ErrNoAnchor) {
						s.t.Errorf("Sync after one that was given up: %v", err)
					}
					if _, err = n.Anchor(ctx, params); err != nil {
						break
					}
					continue
				}
				err = n.Sync(ctx, params, 20)
			}
			streamerOf(p).x = params
			return ended(err)
		})
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
	})
}
