package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Round is one all-reduce.
type Round struct {
	Seconds float64 // of the slowest peer
	CPU     float64 // seconds, of all peers
	Sent    float64 // bytes, of all peers
}

// mpiSource is compiled when it is needed, with the machine's own compiler.
//
//go:embed mpi/allreduce.c
var mpiSource string

// MPI is mpi/allreduce.c, compiled: the path of the program.
type MPI string

// OpenMPI compiles the program in dir. The error is exec.ErrNotFound if the machine has no OpenMPI.
func OpenMPI(ctx context.Context, dir string) (MPI, error) {
	program := filepath.Join(dir, "allreduce")
	if err := os.WriteFile(program+".c", []byte(mpiSource), 0o600); err != nil {
		return "", err
	}
	_, err := run(ctx, "mpicc", "-O2", "-std=c11", "-o", program, program+".c")
	return MPI(program), err
}

// Reduce has so many ranks reduce a vector again and again. The bytes sent are those that an
// all-reduce must send, because MPI does not report them.
func (m MPI) Reduce(ctx context.Context, ranks int, elements, rounds uint64) (all []Round, err error) {
	out, err := run(ctx, "mpirun", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
		"--allow-run-as-root", "--oversubscribe",
		"-np", fmt.Sprint(ranks), string(m), fmt.Sprint(elements), fmt.Sprint(rounds))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		x, right := Round{Sent: 2 * float64(ranks-1) * float64(4*elements)}, 0
		if _, err := fmt.Sscan(line, &x.Seconds, &x.CPU, &right); err != nil || right != ranks {
			return nil, fmt.Errorf("MPI's sums are wrong, or its answer is: %q", line)
		}
		all = append(all, x)
	}
	return all, nil
}

// run runs a program of OpenMPI, and returns what it printed.
func run(ctx context.Context, program string, args ...string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("OpenMPI is not there, so nothing can be measured beside it: %w: install it "+
			"(on Debian: apt-get install openmpi-bin libopenmpi-dev)", err)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = &stderr
	// mpirun ends its ranks, if it is asked to
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 5*time.Second
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", program, err, &stderr)
	}
	return string(out), err
}
