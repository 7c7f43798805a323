package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// Run runs the swarm to its end. An error means that there is no result; a result that is not OK
// means that a check failed.
func Run(ctx context.Context, cfg Config) (Result, error) {
	faults := Schedule(cfg.Seed, cfg.Peers, cfg.Slots, cfg.Kinds)
	// enough on a slow machine, where a fault costs about ten seconds and a slot two
	if cfg.Timeout == 0 {
		cfg.Timeout = cfg.stretch(2*time.Minute + time.Duration(cfg.Slots)*2*time.Second +
			time.Duration(len(faults))*20*time.Second)
	}
	timed, cancel := context.WithTimeoutCause(ctx, cfg.Timeout,
		fmt.Errorf("%w: the run is not over after %v", errHang, cfg.Timeout))
	defer cancel()
	r := newRunner(cfg, filepath.Join(cfg.Dir, "run"), lab.NewNotes(cfg.Out), faults)
	res, err := r.play(timed)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return res, err
	}
	if !res.OK {
		res.Dir = cfg.Dir
	}
	res.print(cfg.Out)
	return res, nil
}

func newRunner(cfg Config, dir string, screen *lab.Notes, faults []Fault) *runner {
	return &runner{
		cfg: cfg, dir: dir, name: lab.RunName("chaos"), screen: screen, faults: faults, pending: faults,
		ledger: newLedger(), answers: make(chan func(), 2*maxPeers),
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
		r.diagnose()
	}
	return failure, r.close()
}
