//go:build !linux

package nat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// A World needs Linux. On other systems New returns an error.
type World struct{}

// New needs Linux.
func New(context.Context, Config) (*World, error) {
	return nil, fmt.Errorf("nat: network namespaces are Linux's, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Close has nothing to do.
func (w *World) Close() error { return nil }

// Move needs Linux.
func (w *World) Move(context.Context, int, int) error { return errors.ErrUnsupported }

// Lab needs Linux.
func (w *World) Lab() *lab.Lab { return nil }

// Kind needs Linux.
func (w *World) Kind(int) Kind { return "" }

// Site needs Linux.
func (w *World) Site(int) int { return 0 }

// Addr needs Linux.
func (w *World) Addr(int) netip.Addr { return netip.Addr{} }

// PublicAddr needs Linux.
func (w *World) PublicAddr(int) netip.Addr { return netip.Addr{} }

// Place needs Linux.
func (w *World) Place(int, *exec.Cmd) error { return errors.ErrUnsupported }

// Do needs Linux.
func (w *World) Do(int, func() error) error { return errors.ErrUnsupported }
