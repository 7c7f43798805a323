package check

import (
	"math"

	"github.com/p2pdiloco/p2pdiloco/bridge/plugin"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Comparison is how a library differs from the one that is tried, after a round of each from the
// same parameters.
type Comparison struct {
	Library   string             `json:"library"`
	Name      string             `json:"name"`
	Loss      float64            `json:"loss"` // of the library to test
	OtherLoss float64            `json:"other_loss"`
	Tensors   []TensorDifference `json:"tensors"`
}

// TensorDifference is the difference of two libraries in one tensor.
type TensorDifference struct {
	Name string `json:"name"`
	// Absolute is the largest difference of an element.
	Absolute float64 `json:"absolute"`
	// Relative is the L2 norm of the difference over that of how far the tensor has moved from the
	// start.
	Relative float64 `json:"relative"`
	OK       bool    `json:"ok"`
}

// against compares another library.
func (c *checker) against(cfg plugin.Config) {
	name := "against " + cfg.Path
	mine := c.open(c.cfg.Library, name)
	if mine == nil {
		return
	}
	defer c.end(mine)
	other := c.open(cfg, name)
	if other == nil {
		return
	}
	defer c.end(other)
	layout := mine.Layout()
	if d := layout.Diff(other.Layout()); d != "" {
		c.line(name, Failed, "another layout: %s", d)
		return
	}
	got := Comparison{Library: cfg.Path, Name: other.About().Name}
	a, b := make([]float32, len(c.start)), make([]float32, len(c.start))
	var err error
	if got.Loss, err = c.trainLoss(mine, a); c.failed(name, err) {
		return
	}
	if got.OtherLoss, err = c.trainLoss(other, b); c.failed(name, err) {
		return
	}
	got.Tensors = differences(layout, c.start, a, b, c.cfg)
	c.report.Comparisons = append(c.report.Comparisons, got)
	c.tell(name, got)
}

func (c *checker) trainLoss(p *plugin.Trainer, to []float32) (float64, error) {
	if err := p.Load(c.ctx, c.start); err != nil {
		return 0, err
	}
	stats, err := p.Train(c.ctx, c.task(1, c.cfg.Steps))
	if err != nil {
		return 0, err
	}
	return stats.Loss, p.Export(c.ctx, to)
}

func (c *checker) tell(name string, got Comparison) {
	worst, bad := 0, 0
	for i, t := range got.Tensors {
		if !t.OK {
			bad++
			c.line(name, Failed, "tensor %q: up to %.3g apart, %.3g of the way", t.Name, t.Absolute, t.Relative)
		}
		if t.Relative > got.Tensors[worst].Relative {
			worst = i
		}
	}
	if bad > 0 {
		return
	}
	w := got.Tensors[worst]
	c.line(name, OK, "%q: %d tensors alike after %d steps; the farthest is %q, up to %.3g apart, %.3g of the way; "+
		"losses %.6f and %.6f",
		got.Name, len(got.Tensors), c.cfg.Steps, w.Name, w.Absolute, w.Relative, got.Loss, got.OtherLoss)
}

// differences compares two results tensor by tensor.
func differences(l trainer.Layout, start, a, b []float32, cfg Config) []TensorDifference {
	out, at := make([]TensorDifference, 0, len(l)), 0
	for _, t := range l {
		end := at + int(t.Elements())
		d := TensorDifference{Name: t.Name, Relative: relative(start[at:end], a[at:end], b[at:end])}
		for i := at; i < end; i++ {
			d.Absolute = math.Max(d.Absolute, math.Abs(float64(a[i])-float64(b[i])))
		}
		d.OK = d.Absolute <= cfg.Absolute || d.Relative <= cfg.Relative
		out, at = append(out, d), end
	}
	return out
}

// relative is the distance from a to b, divided by that from start to a. It is 0 if nothing
// differs.
func relative(start, a, b []float32) float64 {
	apart, moved := 0.0, 0.0
	for i := range a {
		d, m := float64(a[i])-float64(b[i]), float64(a[i])-float64(start[i])
		apart, moved = apart+d*d, moved+m*m
	}
	switch {
	case apart == 0:
		return 0
	case moved == 0:
		return math.MaxFloat64 // JSON has no infinity
	}
	return math.Sqrt(apart / moved)
}
