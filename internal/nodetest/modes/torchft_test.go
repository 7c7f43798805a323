package modes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// falling is a model of two parameters, each a fragment, that begin at 1 and fall by 2 with each
// inner step but the first few of the run. It notes them before each inner step of the run, and the
// anchor of each slot.
type falling struct {
	nodetest.Bowl
	peer    *peer
	idle    uint64 // of its first inner steps, those that change nothing
	live    map[uint64][]float32
	anchors map[uint64][]float32
}

func (*falling) Layout() p2pdiloco.Layout {
	one := []uint64{1}
	return p2pdiloco.Layout{{Name: "layers.0.weight", Shape: one}, {Name: "layers.1.weight", Shape: one}}
}

func (*falling) Init(_ context.Context, dst []float32) error {
	dst[0], dst[1] = 1, 1
	return nil
}

func (f *falling) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	anchor := make([]float32, len(f.X))
	f.peer.Inside().Anchor(func(x []float32) { copy(anchor, x) })
	f.anchors[task.Slot-1] = anchor // again when that slot has landed
	for step := task.Step; step < task.Step+uint64(task.Steps); step++ {
		f.live[step] = slices.Clone(f.X)
		select {
		case <-ctx.Done():
			return p2pdiloco.Stats{}, ctx.Err()
		case <-time.After(f.Pace):
		}
		for j := range f.X {
			if step >= f.idle {
				f.X[j] -= 2
			}
		}
	}
	return p2pdiloco.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

// The values of torchft's streaming fixtures (test_fixtures/*.test_diloco_mocked_updates_0 to 5 in
// pytorch/torchft, 7eb7087): 2 replicas, 2 fragments, H = 6, an outer step of SGD at rate 2, inner
// steps of -2 each. A fragment lands after 3, 6, 9, 12 and 15 steps there, and is sent off tau
// steps before that: its first interval is tau steps shorter than the others. Here all are equally
// long, and a fragment lands tau steps after its border, as in the paper. So with tau inner steps
// in front that change nothing, all values are equal, tau steps later.
func TestStreamingIsThatOfTorchft(t *testing.T) {
	for _, c := range []struct {
		delay   uint64
		alpha   string
		landed  []float32 // the live value of each slot's fragment when it has landed
		anchors []float32 // its anchor
	}{
		{0, "0", []float32{-11, -23, -35, -47, -59}, []float32{-11, -23, -35, -47}},
		{0, "0.5", []float32{-8, -17, -24.5, -32, -40.25}, []float32{-11, -23, -29, -35}},
		{0, "1", []float32{-5, -11, -17, -23, -29}, []float32{-11, -23, -23, -23}},
		{1, "0", []float32{-7, -19, -27, -39, -47}, []float32{-7, -19, -27, -39}},
		{1, "0.5", []float32{-6, -15, -21.5, -29, -35.75}, []float32{-7, -19, -25, -31}},
		{1, "1", []float32{-5, -11, -17, -23, -29}, []float32{-7, -19, -23, -23}},
	} {
		t.Run(fmt.Sprintf("delay=%d,alpha=%s", c.delay, c.alpha), func(t *testing.T) {
			spec := nodetest.Spec(3, 2)
			spec.Mode, spec.Fragments, spec.InnerSteps, spec.MinPeers = p2pdiloco.ModeStreaming, 2, 6, 2
			spec.FragmentDelay, spec.FragmentAlpha = strconv.FormatUint(c.delay, 10), c.alpha
			spec.FragmentOrder, spec.Aggregator, spec.Clip = "sequential", "mean", "off"
			spec.Outer, spec.OuterLR, spec.Momentum = outeropt.SGD, "2", "0"
			nodetest.Run(t, spec, 2, func(s *swarm) {
				trainers := make([]*falling, 2)
				for i, p := range s.Peers {
					trainers[i] = &falling{
						Bowl: nodetest.Bowl{Pace: time.Second, Parts: i == 1}, peer: p, idle: c.delay,
						live: make(map[uint64][]float32), anchors: make(map[uint64][]float32),
					}
					p.Trainer = trainers[i]
				}
				s.Start(s.Peers...)
				s.Finish(2*time.Minute, s.Peers...)
				want := []float32{1, 1} // live
				for step := range uint64(16) {
					if at := step / 3; step%3 == 0 && at > 0 {
						want[(at-1)%2] = c.landed[at-1]
					}
					for i, f := range trainers {
						if got := f.live[c.delay+step]; !slices.Equal(got, want) {
							t.Errorf("peer %d, after %d steps: %v, want %v", i, step, got, want)
						}
					}
					want[0], want[1] = want[0]-2, want[1]-2
				}
				anchor := []float32{1, 1}
				for at, x := range c.anchors {
					anchor[at%2] = x
					for i, f := range trainers {
						if got := f.anchors[uint64(at+1)]; !slices.Equal(got, anchor) {
							t.Errorf("peer %d: the anchor after slot %d is %v, want %v", i, at+1, got, anchor)
						}
					}
				}
			})
		})
	}
}
