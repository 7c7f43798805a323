package modes

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// graded is one that subtracts itself.
type graded struct{ divided }

func (g graded) ExportGradientRange(_ context.Context, begin int, start, dst []float32) error {
	for i := range dst {
		dst[i] = start[i] - g.X[begin+i]
	}
	return nil
}

// coarse is a trainer whose live parameters have no more bits than those of bf16, and whose inner
// steps change nothing.
type coarse struct {
	divided
	loaded, anchor []float32 // what was loaded last, and measured last
}

func bf16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

func (*coarse) Init(_ context.Context, dst []float32) error {
	for i := range dst {
		dst[i] = 1 + float32(i)/4096
	}
	return nil
}

func (c *coarse) Load(ctx context.Context, x []float32) error {
	c.loaded = slices.Clone(x)
	err := c.divided.Load(ctx, x)
	c.round(0, len(x))
	return err
}

func (c *coarse) LoadRange(ctx context.Context, begin int, src []float32) error {
	err := c.divided.LoadRange(ctx, begin, src)
	c.round(begin, len(src))
	return err
}

func (c *coarse) round(begin, elements int) {
	for i, x := range c.X[begin : begin+elements] {
		c.X[begin+i] = bf16(x)
	}
}

func (c *coarse) Evaluate(context.Context) (float64, error) {
	c.anchor = c.loaded
	return 1, nil
}

func (c *coarse) Train(_ context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	return p2pdiloco.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

func (c *coarse) ExportGradientRange(_ context.Context, begin int, start, dst []float32) error {
	for i := range dst {
		dst[i] = bf16(start[i]) - c.X[begin+i]
	}
	return nil
}

// What live parameters of few bits lose of the anchor is no part of the pseudo-gradient: without
// inner steps the anchor stays as it was.
func TestRoundingIsNoGradientInTheStream(t *testing.T) {
	for _, alpha := range []string{"0", "0.5"} {
		t.Run("alpha="+alpha, func(t *testing.T) {
			spec := streamSpec(4, 2, 3)
			spec.FragmentAlpha, spec.Aggregator, spec.Clip = alpha, "mean", "off"
			nodetest.Run(t, 10*time.Millisecond, spec, 2, func(s *nodetest.Swarm) {
				for _, p := range s.Peers {
					p.Trainer = &coarse{divided: divided{newStreamer(p.Host)}}
				}
				s.Start(s.Peers...)
				s.Finish(time.Minute, s.Peers...)
				for _, p := range s.Peers {
					c := p.Trainer.(*coarse)
					want := make([]float32, len(c.anchor))
					_ = c.Init(t.Context(), want)
					nodetest.SameVectors(t, "the last anchor", c.anchor, want)
				}
			})
		})
	}
}
