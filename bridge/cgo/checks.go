package cgo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// describe is a first line and not a check: Open has already checked the layout.
func (c *checker) describe(p Library) error {
	about, layout := p.About(), p.Layout()
	c.report.Name, c.report.Tensors, c.report.Parameters = about.Name, len(layout), layout.Elements()
	c.exact = exact(about.Types)
	c.tell(OK, "%q: %d parameters in %d tensors (%s)", about.Name, layout.Elements(), len(layout), about.Types)
	return nil
}

// exact says whether live tensors of these types keep every bit of what is loaded.
func exact(types string) bool { return !strings.Contains(types, "f16") } // bf16, too

// initial: the initial parameters follow from configuration and seed alone.
func (c *checker) initial(p Library) error {
	d := p.Layout().Elements()
	c.start = make([]float32, d)
	again, fresh, other := make([]float32, d), make([]float32, d), make([]float32, d)
	if err := errors.Join(p.Init(c.ctx, c.start), p.Init(c.ctx, again)); err != nil {
		return err
	}
	c.report.Init = digest(c.start)
	seeded := c.cfg.Library
	seeded.Seed++
	if err := errors.Join(c.initOf(c.cfg.Library, fresh), c.initOf(seeded, other)); err != nil {
		return err
	}
	switch {
	case differ(c.start, again) >= 0:
		c.tell(Failed, "asked twice with one seed, %s", c.where(p, c.start, again))
	case differ(c.start, fresh) >= 0:
		c.tell(Failed, "asked of two trainers with one seed, %s", c.where(p, c.start, fresh))
	case differ(c.start, other) < 0:
		c.tell(Note, "the same parameters for every seed")
	default:
		c.tell(OK, "the same bits twice and of another trainer; others for another seed")
	}
	return nil
}

// initOf computes the initial parameters with a trainer of its own.
func (c *checker) initOf(cfg Config, dst []float32) error {
	p, err := c.open(cfg)
	if err != nil {
		return err
	}
	return errors.Join(p.Init(c.ctx, dst), p.Close())
}

// roundTrip: an export gives what was loaded, to the bit if the live tensors are float32.
func (c *checker) roundTrip(p Library) error {
	x, got, again := noise(len(c.start), 1), make([]float32, len(c.start)), make([]float32, len(c.start))
	if err := errors.Join(p.Load(c.ctx, x), p.Export(c.ctx, got)); err != nil {
		return err
	}
	if c.exact {
		c.equal(p, x, got, "loaded and exported", "the same bits come back")
		return nil
	}
	if err := errors.Join(p.Load(c.ctx, got), p.Export(c.ctx, again)); err != nil {
		return err
	}
	c.equal(p, got, again, "what was exported, loaded and exported again",
		"values are rounded once, then the same bits come back")
	return nil
}

// ranges: loading and exporting by ranges equals loading and exporting at once.
func (c *checker) ranges(p Library) error {
	d := len(c.start)
	x, whole, parts := noise(d, 2), make([]float32, d), make([]float32, d)
	byRanges := func(v []float32, do func(ctx context.Context, begin int, part []float32) error) error {
		cuts := []int{0, 1 % d, d / 3, d/3 + 1, d}
		for i, end := range cuts[1:] {
			if begin := cuts[i]; begin < end {
				if err := do(c.ctx, begin, v[begin:end]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := p.Load(c.ctx, c.start)
	if err == nil {
		err = byRanges(x, p.LoadRange)
	}
	if err == nil {
		err = p.Export(c.ctx, whole)
	}
	if err == nil {
		err = byRanges(parts, p.ExportRange)
	}
	if err != nil {
		return err
	}
	if c.exact && differ(x, whole) >= 0 {
		c.tell(Failed, "loaded by ranges, %s", c.where(p, x, whole))
		return nil
	}
	c.equal(p, whole, parts, "exported by ranges", "the same as at once")
	return nil
}

// noise is a vector to load, with values of the size of parameters, all different.
func noise(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 0.05)
	}
	return x
}

// differ is the first element whose bits differ, -1 if none does.
func differ(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// equal reports whether two vectors have the same bits.
func (c *checker) equal(p Library, want, got []float32, how, well string) {
	if differ(want, got) >= 0 {
		c.tell(Failed, "%s, %s", how, c.where(p, want, got))
	} else {
		c.tell(OK, "%s", well)
	}
}

// where says how two vectors that differ do.
func (c *checker) where(p Library, want, got []float32) string {
	i, n, most := differ(want, got), 0, 0.0
	for j := range want {
		if math.Float32bits(want[j]) != math.Float32bits(got[j]) {
			n++
			most = max(most, math.Abs(float64(want[j])-float64(got[j])))
		}
	}
	return fmt.Sprintf("%d of %d elements differ, by %.3g at most; the first is %d (tensor %q): %v and %v", n,
		len(want), most, i, p.Layout().At(uint64(i)), want[i], got[i])
}
