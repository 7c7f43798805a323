//go:build !(cgo && unix)

package cgo

import (
	"context"
	"fmt"
)

// Open returns ErrNoCgo.
func Open(_ context.Context, cfg Config) (Library, error) {
	return nil, fmt.Errorf("%s: %w: it was built without cgo, as wheels, containers and release files are. Build one "+
		"that does, with a C compiler: CGO_ENABLED=1 go install github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco@latest. "+
		"Or have a program of yours attach to the node: join --trainer attach, with p2pdiloco_attach.h", cfg.Path, ErrNoCgo)
}
