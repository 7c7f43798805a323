package round

import (
	"context"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// gradient is the pseudo-gradient of a slot's fragment, start - params, as allreduce.Encode takes
// it: each of its frames is subtracted when it is encoded.
type gradient struct {
	*vectors
	fragment slot.Fragment
	params   []float32 // D elements; nil: the pseudo-gradient itself is in local
	kept     bool      // in local, too: the next start is ahead of the anchor by it
	// fetches from a trainer what Fill needs, and calls ready as allreduce.Values has it; nil: it
	// is there
	fetch func(ready func(n uint64) error) error
}

// gradient is that of params, or what local has where there are none.
func (l *Loop) gradient(params []float32) *gradient {
	g := &gradient{vectors: &l.vectors, fragment: l.fragment(l.base + 1), params: params, kept: l.mode.Lead() > 0}
	if g.kept || params == nil {
		g.makeLocal()
	}
	return g
}

// exported is the pseudo-gradient of a trainer's model.
func (l *Loop) exported(ctx context.Context) *gradient {
	g := l.gradient(nil)
	g.fetch = func(ready func(n uint64) error) error { return l.model.export(ctx, g, l.mode.parts(l), ready) }
	return g
}

// Come implements allreduce.Values. Its error names the tensor of a bad value.
func (g *gradient) Come(ready func(n uint64) error) error {
	named := func(n uint64) error {
		err := ready(n)
		if bad, ok := errors.AsType[*allreduce.BadElement](err); ok {
			return g.diverged(g.part(bad.Element, bad.Element+1)[0].Begin, bad.Value)
		}
		return err
	}
	if g.fetch != nil {
		if err := g.fetch(named); err != nil {
			return err
		}
	}
	return named(g.fragment.Elements())
}

// part returns where the elements [begin, end) of the fragment lie in the flat vector.
func (g *gradient) part(begin, end uint64) (ranges []slot.Range) {
	for _, r := range g.fragment.Ranges {
		if p := (slot.Range{Begin: r.Begin + begin, End: min(r.Begin+end, r.End)}); p.Begin < p.End {
			ranges = append(ranges, p)
		}
		begin, end = begin-min(begin, r.Len()), end-min(end, r.Len())
	}
	return ranges
}

// Fill implements allreduce.Values.
func (g *gradient) Fill(begin uint64, x []float32) error {
	for _, r := range g.part(begin, begin+uint64(len(x))) {
		part := x[:r.Len()]
		x = x[r.Len():]
		if g.params != nil {
			kernel.Sub(part, g.start[r.Begin:r.End], g.params[r.Begin:r.End])
		} else {
			copy(part, g.local[r.Begin:r.End])
		}
		if g.params != nil && g.kept {
			copy(g.local[r.Begin:r.End], part)
		}
	}
	return nil
}

// Decoded implements allreduce.Values: what encoding loses is not this package's affair.
func (g *gradient) Decoded(uint64, []float32) {}
