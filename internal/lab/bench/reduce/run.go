package reduce

import (
	"context"
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// warmUps are the rounds before those that are measured.
const warmUps = 2

// contender is something that reduces, again and again.
type contender interface {
	Round(ctx context.Context, measured bool) (bench.Round, error)
	Close()
}

// Run measures one case, and its contender if there is one.
func Run(ctx context.Context, cfg Config) (r bench.Report, err error) {
	return r, measure(ctx, &r, []Config{cfg})
}

// measure measures one or more cases in one run with their rounds in turn, and the contender of the
// first case. All run in one place.
func measure(ctx context.Context, r *bench.Report, cfgs []Config) (err error) {
	first := cfgs[0]
	p, err := bench.Open(ctx, first.Members, first.Links)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var contenders []contender // OpenMPI is the last
	defer func() {
		for _, c := range contenders {
			c.Close()
		}
	}()
	var swarms []*swarmOf
	for i, cfg := range cfgs {
		s, err := openSwarm(ctx, cfg, fmt.Sprintf("case-%d", i), p)
		if err != nil {
			return err
		}
		swarms, contenders = append(swarms, s), append(contenders, s)
	}
	if first.Against == MPI {
		m, err := bench.OpenMPI(ctx, first.Dir, first.Members, first.Elements)
		if err != nil {
			return err
		}
		contenders = append(contenders, m)
	}
	rounds, err := alternate(ctx, contenders, first.Iters)
	if err != nil {
		return err
	}
	for _, s := range swarms {
		if err := s.finish(ctx); err != nil {
			return err
		}
	}
	r.Say("links", "%s", first.Links)
	report(r, swarms, rounds)
	return nil
}

// alternate has the contenders take turns, round by round, and returns the measured rounds of each.
func alternate(ctx context.Context, contenders []contender, iters int) ([][]bench.Round, error) {
	all := make([][]bench.Round, len(contenders))
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
