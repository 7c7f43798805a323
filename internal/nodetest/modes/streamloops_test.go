package modes

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

// streamed is a program with a loop of its own in mode streaming.
func streamed(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
	params := make([]float32, n.Spec().Layout.Elements())
	_, err := n.Anchor(ctx, params)
	for err == nil {
		task, _ := n.Task()
		descendFor(p, params, place{task.Slot, task.Done}, task.Steps)
		var r *p2pdiloco.Round
		if r, err = n.Begin(params, (task.Done+uint64(task.Steps))*streamerOf(p).tokens); err != nil {
			return err
		}
		if task.Slot < n.Spec().LastSlot() {
			descendFor(p, params, place{task.Slot + 1, 0}, task.Delay)
		}
		_, err = r.Finish(ctx, params)
	}
	streamerOf(p).X = params
	return nodetest.Ended(err)
}

// descendFor is inner steps of such a program.
func descendFor(p *nodetest.Peer, params []float32, at place, steps int) {
	l := streamerOf(p)
	if steps > 0 {
		l.lives[at] = slices.Clone(params)
	}
	l.X = params
	for range steps {
		time.Sleep(l.Pace)
		l.Step()
	}
}

// Programs with loops of their own and trainers are the same to each other, and to the replay.
func TestOwnLoopsInTheStream(t *testing.T) {
	spec := streamSpec(3, 3, 3)
	spec.InnerSteps, spec.FragmentDelay, spec.FragmentAlpha, spec.MinPeers = 10, "2", "0.5", 3
	spec.Aggregator, spec.Clip = "mean", "off"
	nodetest.Run(t, 10*time.Millisecond, spec, 3, func(s *nodetest.Swarm) {
		trainers := streaming(s)
		ownLoops(s, s.Peers[:2], streamed)
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		r := newReplay(s, trainers)
		for slotNumber := uint64(1); slotNumber <= r.spec.LastSlot(); slotNumber++ {
			r.slot(t, slotNumber)
		}
		for _, p := range s.Peers[:2] {
			nodetest.SameVectors(t, "what a loop is left with", streamerOf(p).X, r.theta)
		}
	})
}

// ownLoops makes peers programs with a loop of their own, without a Trainer.
func ownLoops(
	s *nodetest.Swarm,
	peers []*nodetest.Peer,
	loop func(context.Context, *p2pdiloco.Node, *nodetest.Peer) error,
) {
	for _, p := range peers {
		l := streamerOf(p)
		p.Config = func(c *p2pdiloco.Config) {
			c.Trainer, c.Spec.Layout = nil, l.Layout()
			c.Init = func(dst []float32) error { return l.Init(context.Background(), dst) }
		}
		p.Main = func(ctx context.Context, n *p2pdiloco.Node) error { return loop(ctx, n, p) }
	}
}

// Sync by itself, with a NaN and with one that is given up: only Anchor leads on then.
func TestSyncInTheStream(t *testing.T) {
	inStream(t, 2, 2, 2, func(s *nodetest.Swarm) {
		ownLoops(s, s.Peers, func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			params := make([]float32, n.Spec().Layout.Elements())
			_, err := n.Anchor(ctx, params)
			for round := 0; err == nil; round++ {
				task, _ := n.Task()
				if want := 5; task.Steps != want || task.Done != 0 || task.Delay != 2 {
					s.T.Errorf("task %+v, want %d steps", task, want)
				}
				descendFor(p, params, place{task.Slot, 0}, task.Steps)
				if p == s.Peers[0] && round == 1 {
					at := fragmentOf(n.Spec(), task.Slot).Ranges[0].Begin
					x := params[at]
					params[at] = float32(math.NaN())
					if err := n.Sync(ctx, params, 1); !errors.Is(err, p2pdiloco.ErrNotFinite) {
						s.T.Errorf("Sync with a NaN: %v", err)
					}
					params[at] = x
					if err := n.Sync(nodetest.Expired(), params, 1); !errors.Is(err, context.Canceled) {
						s.T.Errorf("Sync with a context that has ended: %v", err)
					}
					if err := n.Sync(ctx, params, 20); !errors.Is(err, p2pdiloco.ErrNoAnchor) {
						s.T.Errorf("Sync after one that was given up: %v", err)
					}
					if _, err = n.Anchor(ctx, params); err != nil {
						break
					}
					continue
				}
				err = n.Sync(ctx, params, 20)
			}
			streamerOf(p).X = params
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
	})
}
