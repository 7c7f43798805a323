package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// baselineSlots is the number of slots over which the pace of an undisturbed run is measured.
const baselineSlots = 20

// maxSocket is the longest path of a Unix socket that every system takes.
const maxSocket = 90

// Run runs the swarm to its end; before that, if wanted, the same swarm undisturbed. hurry ends the
// waiting for processes that were asked to stop. An error means that there is no result; a result
// that is not OK means that a check failed.
func Run(ctx context.Context, cfg Config, hurry <-chan struct{}) (Result, error) {
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
		res, err := runOne(timed, quiet, "baseline", screen, hurry)
		if err != nil || ctx.Err() != nil {
			return res, errors.Join(err, ctx.Err())
		}
		if !res.OK {
			return finish(cfg, res, began), nil
		}
		base = res.SlotsPerHour
	}
	res, err := runOne(timed, cfg, "run", screen, hurry)
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

// runOne runs one swarm in a folder of its own.
func runOne(ctx context.Context, cfg Config, name string, screen *swarm.Screen, hurry <-chan struct{}) (Result, error) {
	faults := Schedule(cfg.Seed, cfg.Peers, cfg.Slots, cfg.Kinds)
	sockets, remove, err := socketDir(filepath.Join(cfg.Dir, name))
	if err != nil {
		return Result{}, err
	}
	defer remove()
	net, err := newNetwork(ctx, cfg, faults)
	if err != nil {
		return Result{}, err
	}
	r := newRunner(cfg, filepath.Join(cfg.Dir, name), sockets, net, faults, screen)
	failure := r.run(ctx)
	interrupted := errors.Is(failure, context.Canceled)
	if failure != nil && !interrupted {
		screen.Note(failure.Error())
		r.diagnose()
	}
	if err := r.close(hurry); err != nil {
		return Result{}, err
	}
	if interrupted {
		return Result{}, nil
	}
	return r.result(failure), nil
}

// newNetwork is the loopback interface, or a network of namespaces if a fault needs to change
// links.
func newNetwork(ctx context.Context, cfg Config, faults []Fault) (network, error) {
	if len(NeedLinks(cfg.Kinds)) == 0 {
		return loopback{}, nil
	}
	late := 0
	for _, f := range faults {
		if f.Kind == Late {
			late++
		}
	}
	return openLinks(ctx, 1+cfg.Peers+late)
}

// socketDir is a folder for the status sockets: the run's folder, or a temporary one if paths would
// be too long in it.
func socketDir(dir string) (path string, remove func(), err error) {
	if len(dir) <= maxSocket {
		return dir, func() {}, nil
	}
	path, err = os.MkdirTemp("", "p2pdiloco-")
	return path, func() { _ = os.RemoveAll(path) }, err
}
