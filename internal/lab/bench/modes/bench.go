package modes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// bench is one bench under way.
type bench struct {
	cfg     Config
	corpus  *builtin.Corpus
	warm    *warm
	testbed swarm.Testbed
	runs    string // folder of all rows' folders
	screen  *swarm.Screen
	rows    []row
	result  Result
}

// Run measures everything, and prints a table. An error means that there is no result; a result
// that is not OK means that some row did not run to its end.
func Run(ctx context.Context, cfg Config) (r Result, err error) {
	began := time.Now()
	b := &bench{cfg: cfg, screen: swarm.NewScreen(cfg.Out, 0)}
	if b.testbed, err = openTestbed(ctx, cfg); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.testbed.Close()) }()
	if b.runs, err = os.MkdirTemp(cfg.Dir, "bench-"); err != nil {
		return r, err
	}
	if err := b.prepare(ctx); err != nil {
		return r, err
	}
	for seed := range uint64(cfg.Seeds) {
		if err := b.runSeed(ctx, seed+1); err != nil {
			return r, err
		}
	}
	b.result.WallSeconds = time.Since(began).Seconds()
	b.result.sumUp()
	b.result.print(cfg.Out)
	return b.result, nil
}

// prepare opens the data, chooses the pace, makes the warm start and lays out the result.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.corpus, err = builtin.OpenCorpus(ctx, builtin.CorpusConfig{Paths: b.cfg.Data}); err != nil {
		return err
	}
	paced := b.cfg.StepTime == 0
	if paced {
		if b.cfg.StepTime, err = paceOf(ctx, b.cfg, b.corpus); err != nil {
			return err
		}
	}
	b.rows = b.cfg.rows()
	b.note("warm start: %d data-parallel steps; then about %v of inner steps", b.cfg.WarmSteps,
		b.estimate().Round(time.Second))
	if b.warm, err = warmStart(ctx, b.cfg, b.corpus); err != nil {
		return err
	}
	b.note("warm start at a held-out loss of %.4f; an inner step lasts %v", b.warm.Loss, b.cfg.StepTime)
	m := b.cfg.Model.WithDefaults()
	steps := b.cfg.Rounds * b.cfg.InnerSteps
	b.result = Result{
		Peers: b.cfg.Peers, InnerSteps: b.cfg.InnerSteps, Rounds: b.cfg.Rounds, Seeds: b.cfg.Seeds,
		Cores: runtime.NumCPU(),
		Model: b.cfg.model(), Parameters: m.Parameters(), Tokens: steps * uint64(b.cfg.Peers*m.Batch*m.Context),
		StepSeconds: b.cfg.StepTime.Seconds(), Paced: paced, Warm: b.warm,
		Rows: []Row{{Name: referenceRow, Sent: new(float64(dataParallelBytes(b.cfg.Peers, m.Parameters(), steps)))}},
	}
	if b.cfg.Namespaces {
		b.result.Links = &Links{int64(b.cfg.Rate), linkDelay.Seconds()}
	}
	for _, r := range b.rows {
		b.result.Rows = append(b.result.Rows,
			Row{Name: r.name, Mode: r.mode, NotBuilt: r.notBuilt != "", Settings: r.settings})
	}
	return nil
}

// estimate is how long all rows' inner steps last.
func (b *bench) estimate() (d time.Duration) {
	for _, r := range b.rows {
		if r.notBuilt == "" {
			d += time.Duration(b.cfg.Seeds) * r.span(b.cfg)
		}
	}
	return d
}

// runSeed trains all rows in a seed. If a row fails, it reports that and goes on; the end of ctx
// ends all.
func (b *bench) runSeed(ctx context.Context, seed uint64) error {
	reference, err := trainReference(ctx, b.cfg, b.corpus, b.warm, seed)
	if err != nil {
		return err
	}
	b.add(referenceRow, reference)
	for _, r := range b.rows {
		if r.notBuilt != "" {
			continue
		}
		run, err := b.train(ctx, r, seed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			run = Trial{Seed: seed, Error: err.Error()}
		} else {
			run.Loss = lossAt(run.Curve, b.limit(r))
		}
		b.add(r.name, run)
	}
	return nil
}

// limit is the number of tokens after which a row's loss is taken. Peers that wait for each other
// have trained on equally many at the end, even if they had not yet reported all of the last round
// when its loss was measured.
func (b *bench) limit(r row) uint64 {
	if r.mode == modeAsync {
		return b.result.Tokens
	}
	return ^uint64(0)
}

// add notes a run.
func (b *bench) add(name string, r Trial) {
	row := b.result.row(name)
	row.Runs = append(row.Runs, r)
	switch {
	case r.Error != "":
		b.note("seed %d, %s: FAILED: %s", r.Seed, name, r.Error)
	case r.Seconds > 0:
		b.note("seed %d, %s: held-out loss %.4f after %.0f s", r.Seed, name, r.Loss, r.Seconds)
	default:
		b.note("seed %d, %s: held-out loss %.4f", r.Seed, name, r.Loss)
	}
}

func (b *bench) note(format string, args ...any) { b.screen.Note(fmt.Sprintf(format, args...)) }

const (
	labName   = "p2pbench"
	linkDelay = 5 * time.Millisecond // there and back between two peers: 20 ms
)

// openTestbed makes the place of the processes: this machine's loopback, or a namespace each. Site
// 0 is the bootstrap node's.
func openTestbed(ctx context.Context, cfg Config) (swarm.Testbed, error) {
	if !cfg.Namespaces {
		return swarm.Loopback{}, nil
	}
	link := lab.Link{Rate: int64(cfg.Rate), Delay: linkDelay}
	return lab.New(ctx, lab.Config{Nodes: 1 + cfg.Peers, Name: labName, Link: link})
}
