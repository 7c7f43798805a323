package cgo

import (
	"math"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Comparison is how another trainer differs from the library that is tried, after a round of each
// from the same parameters.
type Comparison struct {
	Library   string             `json:"library"` // the other one
	Loss      float64            `json:"loss"`    // of the library to test
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

// against compares another trainer.
func (c *checker) against(with Other) error {
	mine, err := c.open(c.cfg.Library)
	if err != nil {
		return err
	}
	defer c.end(mine)
	other, err := with.Open(c.ctx)
	if err != nil {
		return err
	}
	if l, ok := other.(Library); ok {
		defer c.end(l)
	}
	layout := mine.Layout()
	if d := layout.Diff(other.Layout()); d != "" {
		c.tell(Failed, "another layout: %s", d)
		return nil
	}
	a, b := make([]float32, len(c.start)), make([]float32, len(c.start))
	own, err := c.train(mine, 1, c.start, a)
	if err != nil {
		return err
	}
	others, err := c.train(other, 1, c.start, b)
	if err != nil {
		return err
	}
	got := Comparison{
		Library: with.Name, Loss: own.Loss, OtherLoss: others.Loss,
		Tensors: differences(layout, c.start, a, b, c.cfg),
	}
	c.report.Comparisons = append(c.report.Comparisons, got)
	c.compared(got)
	return nil
}

// compared reports the tensors that differ too much, or the farthest if none does.
func (c *checker) compared(got Comparison) {
	worst, bad := got.Tensors[0], false
	for _, t := range got.Tensors {
		if !t.OK {
			bad = true
			c.tell(Failed, "tensor %q: up to %.3g apart, %.3g of the way", t.Name, t.Absolute, t.Relative)
		}
		if t.Relative > worst.Relative {
			worst = t
		}
	}
	if !bad {
		c.tell(OK, "%d tensors alike after %d steps; the farthest is %q, up to %.3g apart, %.3g of the way; "+
			"losses %.6f and %.6f", len(got.Tensors), c.cfg.Steps, worst.Name, worst.Absolute, worst.Relative,
			got.Loss, got.OtherLoss)
	}
}

// differences compares two results tensor by tensor.
func differences(l trainer.Layout, start, a, b []float32, cfg CheckConfig) []TensorDifference {
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
