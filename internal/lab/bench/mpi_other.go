//go:build !unix

package bench

import (
	"context"
	"errors"
	"fmt"
)

// MPI is not there.
type MPI struct{}

// OpenMPI has no FIFOs to speak to MPI's processes with.
func OpenMPI(context.Context, string, int, uint64) (*MPI, error) {
	return nil, fmt.Errorf("%w: it needs a Unix system", ErrNoMPI)
}

// Round is never called.
func (*MPI) Round(context.Context, bool) (Round, error) { return Round{}, errors.ErrUnsupported }

// Close has nothing to do.
func (*MPI) Close() {}
