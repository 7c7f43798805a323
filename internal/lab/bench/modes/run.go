package modes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// run is one bench under way.
type run struct {
	cfg     Config
	corpus  *builtin.Corpus
	warm    *warm
	testbed swarm.Testbed
	dir     string // of all rows' folders
	screen  *swarm.Screen
	report  bench.Report
}

// Run measures everything. The error is that of rows that did not run to their ends, too, which the
// report lacks.
func Run(ctx context.Context, cfg Config) (r bench.Report, err error) {
	b := &run{cfg: cfg, screen: swarm.NewScreen(cfg.Out, 0)}
	// site 0 is the bootstrap node's
	if b.testbed, err = bench.Open(ctx, 1+cfg.Peers, cfg.Links); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.testbed.Close()) }()
	if b.dir, err = os.MkdirTemp(cfg.Dir, "modes-"); err != nil {
		return r, err
	}
	if err := b.prepare(ctx); err != nil {
		return r, err
	}
	var errs []error
	for seed := range cfg.Seeds {
		if err := b.trainSeed(ctx, seed+1); err != nil {
			errs = append(errs, fmt.Errorf("seed %d: %w", seed+1, err))
		}
	}
	b.compare()
	return b.report, errors.Join(errs...)
}

// prepare opens the data, chooses the pace and makes the warm start.
func (b *run) prepare(ctx context.Context) (err error) {
	if b.corpus, err = builtin.OpenCorpus(ctx, builtin.CorpusConfig{Paths: b.cfg.Data}); err != nil {
		return err
	}
	b.note("warm start: %d data-parallel steps", b.cfg.WarmSteps)
	if b.warm, err = warmStart(ctx, b.cfg, b.corpus, b.dir); err != nil {
		return err
	}
	b.report.Say("model", "%s, %d parameters", b.cfg.model(), b.cfg.Model.WithDefaults().Parameters())
	b.report.Say("training", "%d rounds of %d inner steps of %v, on %d cores", b.cfg.Rounds, b.cfg.InnerSteps, b.cfg.StepTime,
		runtime.NumCPU())
	b.report.Say("warm-start", "%d data-parallel steps, held-out loss %.4f", b.cfg.WarmSteps, b.warm.loss)
	b.report.Say("links", "%s", b.cfg.Links)
	return nil
}

// trainSeed trains all rows in a seed. If a row fails, it goes on with the next; the end of ctx
// ends all.
func (b *run) trainSeed(ctx context.Context, seed uint64) error {
	loss, err := trainReference(ctx, b.cfg, b.corpus, b.warm, seed)
	if err != nil {
		return err
	}
	b.note("seed %d, %s: held-out loss %.4f", seed, referenceRow, loss)
	b.report.Add(int(seed-1), b.cfg.name(referenceRow), 1, bench.Value{X: loss, Unit: "loss"},
		bench.Value{X: b.cfg.dataParallelBytes(), Unit: "sent-B"})
	var slowSync []point
	var errs []error
	for _, r := range b.cfg.rows() {
		t, err := b.train(ctx, r, seed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
			continue
		}
		if r.name == slowSyncRow {
			slowSync = t.curve
		} else if ratio, ok := race(t.curve, slowSync); ok && r.slow {
			t.values = append(t.values, bench.Value{X: ratio, Unit: "sec-to-loss-x-sync"})
		}
		b.note("seed %d, %s: held-out loss %.4f", seed, r.name, t.values[0].X)
		b.report.Add(int(seed-1), b.cfg.name(r.name), 1, t.values...)
	}
	return errors.Join(errs...)
}

// compare adds what follows from the seeds.
func (b *run) compare() {
	for _, r := range b.cfg.rows() {
		name, sync := b.cfg.name(r.name), b.cfg.name(modeSync)
		b.report.Ratio(name, b.cfg.name(referenceRow), "loss", "dp")
		if r.name != modeSync {
			b.report.Ratio(name, sync, "loss", "sync")
			b.report.Ratio(name, sync, "peak-B", "sync")
		}
	}
}

func (b *run) note(format string, args ...any) { b.screen.Note(fmt.Sprintf(format, args...)) }
