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
	params   []float32 // D elements; nil: the pseudo-gradient itself is in own
	own      []float32 // D elements: local, or the contribution's memory
	kept     bool      // in local, too: the next start is ahead of the anchor by it
	// fetches from a trainer what Fill needs, as allreduce.Values.Come; nil: it is there
	fetch func(room []float32, ready func(n uint64) error) error
}

// gradient is that of params, or what local has where there are none.
func (l *Loop) gradient(params []float32) *gradient {
	g := &gradient{vectors: &l.vectors, fragment: l.fragment(l.base + 1), params: params, kept: l.mode.Lead() > 0}
	if g.kept {
		g.makeLocal()
	}
	g.own = g.local
	return g
}

// exported is the pseudo-gradient of a trainer's model. It comes straight to the contribution's
// memory where that has room for the whole model, and neither mode nor trainer wants it in local.
func (l *Loop) exported(ctx context.Context) *gradient {
	g, parts := l.gradient(nil), l.mode.parts(l)
	g.fetch = func(room []float32, ready func(n uint64) error) error {
		if g.own = room; room == nil || parts != nil || g.local != nil {
			g.makeLocal()
			g.own = g.local
		}
		return l.model.export(ctx, g, parts, ready)
	}
	return g
}

// Come implements allreduce.Values. Its error names the tensor of a bad value.
func (g *gradient) Come(room []float32, ready func(n uint64) error) error {
	named := func(n uint64) error {
		err := ready(n)
		if bad, ok := errors.AsType[*allreduce.BadElement](err); ok {
			return g.diverged(g.part(bad.Element, bad.Element+1)[0].Begin, bad.Value)
		}
		return err
	}
	if g.fetch != nil {
		if err := g.fetch(room, named); err != nil {
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
			copy(part, g.own[r.Begin:r.End])
		}
		if g.params != nil && g.kept {
			copy(g.local[r.Begin:r.End], part)
		}
	}
	return nil
}

// Decoded implements allreduce.Values: what encoding loses is not this package's affair.
func (g *gradient) Decoded(uint64, []float32) {}
