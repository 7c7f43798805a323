//go:build !unix

package reducebench

import (
	"context"
	"errors"
)

// openMPI has no FIFOs to speak to MPI's processes with.
func openMPI(context.Context, Config) (contender, error) {
	return nil, errors.New("--against mpi needs a Unix system")
}
