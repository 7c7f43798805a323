package reducebench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// warmUps are the rounds before those that are measured.
const warmUps = 2

// sample is one round.
type sample struct {
	seconds float64 // of the slowest peer
	cpu     float64 // seconds, of all peers
	sent    uint64  // bytes, of all peers
}

// contender is something that reduces, again and again.
type contender interface {
	Round(ctx context.Context, measured bool) (sample, error)
	Close()
}

// Run measures one case, and its contender if there is one.
func Run(ctx context.Context, cfg Config) (Result, error) {
	results, err := measure(ctx, []Config{cfg})
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// measure measures one or more cases in one run with their rounds in turn, and the contender of the
// first case. All run in one place.
func measure(ctx context.Context, cfgs []Config) (results []Result, err error) {
	first := cfgs[0]
	if first.Against == MPI { // before anything else starts
		if err := needsMPI(); err != nil {
			return nil, err
		}
	}
	p, err := bench.Open(ctx, first.Peers, first.links())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var contenders []contender
	defer func() {
		for _, c := range contenders {
			c.Close()
		}
	}()
	var swarms []*swarmOf
	for i, cfg := range cfgs {
		s, err := openSwarm(ctx, cfg, fmt.Sprintf("case-%d", i), p)
		if err != nil {
			return nil, err
		}
		swarms, contenders = append(swarms, s), append(contenders, s)
	}
	if first.Against == MPI {
		m, err := openMPI(ctx, first)
		if err != nil {
			return nil, err
		}
		contenders = append(contenders, m)
	}
	samples, err := alternate(ctx, contenders, first.Iters)
	if err != nil {
		return nil, err
	}
	for i, s := range swarms {
		if err := s.finish(ctx); err != nil {
			return nil, err
		}
		results = append(results, newResult(cfgs[i], s, samples[i]))
	}
	if first.Against == MPI {
		results[0].compare(MPI, samples[len(swarms)])
	}
	return results, nil
}

// alternate has the contenders take turns, round by round, and returns the measured rounds of each.
func alternate(ctx context.Context, contenders []contender, iters int) ([][]sample, error) {
	all := make([][]sample, len(contenders))
	for round := range warmUps + iters {
		for i, c := range contenders {
			s, err := c.Round(ctx, round >= warmUps)
			if err != nil {
				return nil, err
			}
			if round >= warmUps {
				all[i] = append(all[i], s)
			}
		}
	}
	return all, nil
}

// needsMPI returns an error if a part of MPI is missing.
func needsMPI() error {
	for _, program := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("--against mpi: there is no %s: install OpenMPI (on Debian: apt-get install "+
				"openmpi-bin libopenmpi-dev)", program)
		}
	}
	return nil
}
