package attach

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// Export fetches all parameters.
func (t *Trainer) Export(ctx context.Context, dst []float32) error { return t.ExportRange(ctx, 0, dst) }

// ExportRange fetches a part of the parameters.
func (t *Trainer) ExportRange(ctx context.Context, begin int, dst []float32) error {
	return t.export(ctx, begin, dst, wire.ExportParams)
}

// ExportGradientRange fetches a part of the pseudo-gradient. The ranks read start where they have
// mapped it.
func (t *Trainer) ExportGradientRange(ctx context.Context, begin int, _, dst []float32) error {
	return t.export(ctx, begin, dst, wire.ExportGradient)
}

// ExportGradient fetches the pseudo-gradient, which mostly came with the offers of the last Train.
func (t *Trainer) ExportGradient(ctx context.Context, _, dst []float32, ready func(begin, end int) error) error {
	if !t.exported || !same(dst, t.local) {
		if err := t.export(ctx, 0, dst, wire.ExportGradient); err != nil {
			return err
		}
	}
	t.exported = false
	return ready(0, len(dst))
}

func (t *Trainer) export(ctx context.Context, begin int, dst []float32, kind uint64) error {
	_, err := t.ask(ctx, &wire.Export{Begin: uint64(begin), End: uint64(begin + len(dst)), Kind: kind})
	if err == nil {
		t.copyOut(dst, begin)
	}
	return err
}

// copyOut copies what was exported, unless dst is that memory.
func (t *Trainer) copyOut(dst []float32, begin int) {
	if shared := t.local[begin : begin+len(dst)]; !same(dst, shared) {
		copy(dst, shared)
	}
}

// same says whether two vectors are the same memory.
func same(a, b []float32) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
