package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// baselineSlots is the number of slots over which the pace of an undisturbed run is measured.
const baselineSlots = 20

// Run runs the swarm to its end; before that, if wanted, the same swarm undisturbed. An error means
// that there is no result; a result that is not OK means that a check failed.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = cfg.DefaultTimeout()
	}
	began := time.Now()
	timed, cancel := context.WithTimeoutCause(ctx, cfg.Timeout,
		fmt.Errorf("%w: the run is not over after %v", errHang, cfg.Timeout))
	defer cancel()
	screen := swarm.NewScreen(cfg.Out, cfg.Width)
	base := 0.0
	if cfg.Baseline {
		quiet := cfg
		quiet.Slots, quiet.Kinds = min(cfg.Slots, baselineSlots), nil
		// so that the run has a last round, and a whole one: both are multiples
		quiet.Slots -= quiet.Slots % cfg.Settings().Fragments
		screen.Note(fmt.Sprintf("%d slots undisturbed, to compare with", quiet.Slots))
		res, err := newRunner(quiet, filepath.Join(cfg.Dir, "baseline"), screen, nil).play(timed)
		if err != nil || ctx.Err() != nil {
			return res, errors.Join(err, ctx.Err())
		}
		if !res.OK {
			return finish(cfg, res, began), nil
		}
		base = res.SlotsPerHour
	}
	res, err := newRunner(cfg, filepath.Join(cfg.Dir, "run"), screen, cfg.schedule()).play(timed)
	if err != nil || ctx.Err() != nil {
		return res, errors.Join(err, ctx.Err())
	}
	res.BaselinePerHour = base
	return finish(cfg, res, began), nil
}

func finish(cfg Config, res Result, began time.Time) Result {
	res.WallSeconds, res.Replay, res.Dir = time.Since(began).Seconds(), cfg.Replay(), cfg.Dir
	summarize(cfg.Out, res)
	return res
}

func newRunner(cfg Config, dir string, screen *swarm.Screen, faults []Fault) *runner {
	return &runner{
		cfg: cfg, dir: dir, name: swarm.RunName("chaos"), screen: screen, faults: faults, pending: faults,
		ledger: newLedger(), polls: polls{answers: make(chan answer, 2*maxPeers)},
	}
}

// play is whole, with a result.
func (r *runner) play(ctx context.Context) (Result, error) {
	failure, err := r.whole(ctx)
	if err != nil {
		return Result{}, err
	}
	return r.result(failure), nil
}

// whole opens a swarm, runs it to its end and closes it. failure is what ended the run early.
func (r *runner) whole(ctx context.Context) (failure, err error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if failure = r.run(ctx); failure != nil && !errors.Is(failure, context.Canceled) {
		r.screen.Note(failure.Error())
		err = r.diagnose()
	}
	return failure, errors.Join(err, r.close())
}
