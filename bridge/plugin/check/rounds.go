package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/plugin"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// round: inner steps change the parameters and count themselves, and the pseudo-gradient is the
// loaded parameters minus the present ones.
func (c *checker) round(p *plugin.Trainer) bool {
	const name = "run"
	d := len(c.start)
	before, _ := p.Evaluate(c.ctx)
	if c.failed(name, p.Load(c.ctx, c.start)) {
		return false
	}
	stats, err := p.Train(c.ctx, c.task(1, c.cfg.Steps))
	if c.failed(name, err) {
		return false
	}
	params := make([]float32, d)
	if c.failed(name, p.Export(c.ctx, params)) {
		return false
	}
	switch done := p.StepsDone(); {
	case stats.Steps != c.cfg.Steps:
		c.line(name, Failed, "asked for %d steps it did %d", c.cfg.Steps, stats.Steps)
	case done != uint64(stats.Steps):
		c.line(name, Failed, "after %d steps *task->steps_done is %d: the peer would take it for hung", stats.Steps,
			done)
	case differ(c.start, params) < 0:
		c.line(name, Failed, "%d steps left every parameter as it was", stats.Steps)
	default:
		c.line(name, OK, "%d steps, %d tokens, loss %.4f, gradient norm %.4g, %.3g s", stats.Steps, stats.Tokens,
			stats.Loss, stats.GradNorm, stats.Elapsed.Seconds())
	}
	return c.gradient(p, params) && c.evaluate(p, before)
}

func (c *checker) gradient(p *plugin.Trainer, params []float32) bool {
	const name = "export_gradient"
	d := len(params)
	want, got := make([]float32, d), make([]float32, d)
	kernel.Sub(want, c.start, params)
	for _, half := range [][2]int{{0, d / 2}, {d / 2, d}} {
		if half[0] == half[1] {
			continue
		}
		err := p.GradientRange(c.ctx, half[0], got[half[0]:half[1]])
		if errors.Is(err, errors.ErrUnsupported) {
			c.line(name, Skipped, "not offered: the peer subtracts")
			return true
		}
		if c.failed(name, err) {
			return false
		}
	}
	if differ(want, got) >= 0 {
		c.line(name, Failed, "against loaded - parameters, %s", c.where(p, want, got))
	} else {
		c.line(name, OK, "loaded - parameters, to the bit")
	}
	return true
}

func (c *checker) evaluate(p *plugin.Trainer, before float64) bool {
	const name = "evaluate"
	first, err := p.Evaluate(c.ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		c.line(name, Skipped, "not offered")
		return true
	}
	if c.failed(name, err) {
		return false
	}
	second, err := p.Evaluate(c.ctx)
	if c.failed(name, err) {
		return false
	}
	if first != second {
		c.line(name, Note, "%v, and then %v of the same parameters", first, second)
	} else {
		c.line(name, OK, "%.4f, after %d steps; %.4f before", first, c.cfg.Steps, before)
	}
	return true
}

// cancel: a run that is cancelled ends soon, and the trainer can be used further.
func (c *checker) cancel(p *plugin.Trainer) bool {
	const name = "cancel"
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ended, before := make(chan error, 1), p.StepsDone()
	go func() {
		_, err := p.Train(ctx, c.task(1, 1_000_000))
		ended <- err
	}()
	if err := c.untilStep(p, before, ended); c.failed(name, err) {
		return false
	}
	began := time.Now()
	cancel()
	<-ended
	within, stop := context.WithTimeout(c.ctx, c.cfg.CancelWithin)
	defer stop()
	err := p.Load(within, c.start) // waits for the run
	if within.Err() != nil && c.ctx.Err() == nil {
		c.line(name, Failed, "the run has not ended within %v", c.cfg.CancelWithin)
		return false
	}
	took := time.Since(began)
	if c.failed(name, err) {
		return false
	}
	if _, err := p.Train(c.ctx, c.task(1, 1)); c.failed(name, err) {
		return false
	}
	c.line(name, OK, "a run of a million steps ended within %v, and the next one ran", took.Round(time.Millisecond))
	return true
}

// untilStep waits until a run does its steps; before is the step count at the end of the last run.
func (c *checker) untilStep(p *plugin.Trainer, before uint64, ended <-chan error) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if done := p.StepsDone(); done != 0 && done != before {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-ended:
			return fmt.Errorf("the run ended before it was cancelled: %w", err)
		}
	}
}

// continues: a round can be repeated, and a new process that restores goes on like the one that
// saved.
func (c *checker) continues(p *plugin.Trainer) bool {
	dir, err := os.MkdirTemp("", "p2pdiloco-check-")
	if c.failed("save, restore", err) {
		return false
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next checks would mean nothing
	file := ""
	if p.About().Saves {
		file = filepath.Join(dir, "state")
	}
	one, two := c.rounds("", file, nil), c.rounds("", "", nil)
	if one == nil || two == nil {
		return false
	}
	same := differ(one.first, two.first) < 0 && differ(one.second, two.second) < 0
	if same {
		c.line("deterministic", OK, "two processes do the same rounds to the bit")
	} else {
		c.line("deterministic", Note, "two processes do the same rounds, and %s", c.where(p, one.second, two.second))
	}
	if file == "" {
		c.line("save, restore", Skipped, "not offered: after a restart the inner optimizer begins anew")
		return true
	}
	c.restored(p, file, one, same)
	c.refuses(p, dir)
	return true
}

// rounds has the parameters after two rounds.
type rounds struct{ first, second []float32 }

// rounds does two rounds in a new process, with a save between them; or, after a restore, only the
// second one, from the end of the first one. With empty paths it neither saves nor restores.
func (c *checker) rounds(restore, save string, from []float32) *rounds {
	const name = "save, restore"
	p := c.open(c.cfg.Library, name)
	if p == nil {
		return nil
	}
	defer c.end(p)
	r := &rounds{from, make([]float32, len(c.start))}
	if restore != "" && c.failed(name, p.Restore(c.ctx, restore)) {
		return nil
	}
	if from == nil {
		r.first = make([]float32, len(c.start))
		if c.failed(name, c.train(p, 1, c.start, r.first)) {
			return nil
		}
	}
	if save != "" && c.failed(name, p.Save(c.ctx, save)) {
		return nil
	}
	if c.failed(name, c.train(p, 2, r.first, r.second)) {
		return nil
	}
	return r
}

// train does a round from given parameters, and returns the new ones.
func (c *checker) train(p *plugin.Trainer, slot uint64, from, to []float32) error {
	if err := p.Load(c.ctx, from); err != nil {
		return err
	}
	if _, err := p.Train(c.ctx, c.task(slot, c.cfg.Steps)); err != nil {
		return err
	}
	return p.Export(c.ctx, to)
}

// restored compares a round after a restore with the one that followed the save.
func (c *checker) restored(p *plugin.Trainer, file string, one *rounds, deterministic bool) {
	const name = "save, restore"
	after, anew := c.rounds(file, "", one.first), c.rounds("", "", one.first)
	if after == nil || anew == nil {
		return
	}
	size := "?"
	if info, err := os.Stat(file); err == nil {
		size = fmt.Sprint(info.Size())
	}
	with, without := relative(one.first, one.second, after.second), relative(one.first, one.second, anew.second)
	switch {
	case differ(one.second, after.second) < 0:
		c.line(name, OK, "goes on with the same bits, from %s bytes (without them it would be %.2g of the way off)",
			size, without)
	case deterministic:
		c.line(name, Failed, "a new process that restores goes on otherwise: %s", c.where(p, one.second, after.second))
	case with > max(c.cfg.Relative, without/2):
		c.line(name, Failed, "a new process that restores is %.2g of the way off, one that does not %.2g", with,
			without)
	default:
		c.line(name, OK, "goes on within %.2g of the way, from %s bytes (without them %.2g)", with, size, without)
	}
}

// refuses: a file that is not a saved state is refused, and the trainer can be used further.
func (c *checker) refuses(p *plugin.Trainer, dir string) {
	const name = "restore refuses"
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("this is no saved state"), 0o600); c.failed(name, err) {
		return
	}
	if err := p.Restore(c.ctx, bad); err == nil {
		c.line(name, Failed, "a file with other contents was taken")
		return
	}
	if !c.failed(name, c.train(p, 1, c.start, make([]float32, len(c.start)))) {
		c.line(name, OK, "a file with other contents, and trains on")
	}
}
