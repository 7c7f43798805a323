//go:build !unix

package bench

import "context"

// MPI is not there.
type MPI struct{}

// FindMPI says no: there are no FIFOs to speak to MPI's processes with.
func FindMPI() error { return noMPI("OpenMPI is measured on Unix systems only: leave it out") }

// OpenMPI fails.
func OpenMPI(context.Context, string, int, uint64) (*MPI, error) { return nil, FindMPI() }

// Round is never called.
func (*MPI) Round(context.Context) (Round, error) { return Round{}, FindMPI() }

// Close has nothing to do.
func (*MPI) Close() {}
