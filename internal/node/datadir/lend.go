package datadir

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

type lentKey struct{}

// Lend returns a context that carries a directory to p2pdiloco.Join. The node works in it without a
// lock of its own: the caller holds the lock from before the node begins to after its end, so that
// no other process gets in between.
func (d Dir) Lend(ctx context.Context) context.Context {
	return context.WithValue(ctx, lentKey{}, d.Root)
}

// OpenOrLent is Open, or the directory that the caller of Join has lent under this path.
func OpenOrLent(ctx context.Context, fsys disk.FS, path string) (Dir, error) {
	if lent, ok := ctx.Value(lentKey{}).(string); ok && lent == path {
		return At(fsys, path), nil
	}
	return Open(fsys, path)
}
