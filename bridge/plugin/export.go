package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// exportStep is the number of elements of one request. While the library copies one range, this
// process works on the one before.
const exportStep = 4 << 20

// Export writes the live parameters into dst.
func (t *Trainer) Export(ctx context.Context, dst []float32) error {
	if err := t.fits(dst); err != nil {
		return err
	}
	return t.ExportRange(ctx, 0, dst)
}

// ExportRange writes the live parameters from element begin on into dst. It wraps
// p2pdiloco.ErrNotFinite if one is not finite.
func (t *Trainer) ExportRange(ctx context.Context, begin int, dst []float32) error {
	return t.exportOut(ctx, begin, dst, false)
}

// GradientRange writes the pseudo-gradient as the library computes it, from element begin on, into
// dst.
func (t *Trainer) GradientRange(ctx context.Context, begin int, dst []float32) error {
	if !t.about.ExportsGradient {
		return errors.ErrUnsupported
	}
	return t.exportOut(ctx, begin, dst, true)
}

func (t *Trainer) exportOut(ctx context.Context, begin int, dst []float32, gradient bool) error {
	return t.export(ctx, exported{
		begin: begin, end: begin + len(dst), gradient: gradient,
		work: func(from, to int) error {
			part := dst[from-begin : to-begin]
			t.copyOut(part, from)
			return t.finite(part, from)
		},
	})
}

// ExportGradient writes start - parameters into dst: the library subtracts, or this process does if
// the library can't. start is the vector that was loaded last. ready is called for each range of
// dst that is done, while the next one is copied.
func (t *Trainer) ExportGradient(ctx context.Context, start, dst []float32, ready func(begin, end int) error) error {
	for _, v := range [][]float32{start, dst} {
		if err := t.fits(v); err != nil {
			return err
		}
	}
	x := exported{end: len(dst), gradient: t.about.ExportsGradient}
	x.work = func(begin, end int) error {
		if local := t.memory.local[begin:end]; x.gradient {
			t.copyOut(dst[begin:end], begin)
		} else {
			kernel.Sub(dst[begin:end], start[begin:end], local)
		}
		return ready(begin, end)
	}
	return t.export(ctx, x)
}

// copyOut copies a range of the shared vector, unless dst is that memory.
func (t *Trainer) copyOut(dst []float32, begin int) {
	if local := t.memory.local[begin : begin+len(dst)]; !same(dst, local) {
		copy(dst, local)
	}
}

// exported is a range of parameters or of the pseudo-gradient, with a function to call for each
// part of it.
type exported struct {
	begin, end int
	gradient   bool
	work       func(begin, end int) error
}

func (t *Trainer) export(ctx context.Context, x exported) error {
	if x.begin < 0 || x.end > t.elements() || x.begin >= x.end {
		return fmt.Errorf("%s: export: elements %d to %d of a model of %d", t.cfg.Path, x.begin, x.end, t.elements())
	}
	doing, flag := "export_params", uint64(0)
	if x.gradient {
		doing, flag = "export_gradient", 1
	}
	c := &call{request: request{
		op:  opExport,
		arg: [requestArgs]uint64{uint64(x.begin), uint64(x.end - x.begin), exportStep, flag},
	}, doing: doing}
	c.where = func() string { return fmt.Sprintf(" after element %d", max(x.begin, int(c.exported.Load()))) }
	at := x.begin
	upTo := func(to uint64) error {
		begin := at
		at = min(x.end, int(min(to, uint64(x.end))))
		if at <= begin {
			return nil
		}
		if err := x.work(begin, at); err != nil {
			return t.turns.host.fault(c, oneLine(err.Error()), err)
		}
		return nil
	}
	_, err := t.turns.do(ctx, c, watchers{exported: upTo})
	return err
}
