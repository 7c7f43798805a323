package cgo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// round: inner steps change the parameters and count themselves.
func (c *checker) round(p Library) error {
	c.before, _ = p.Evaluate(c.ctx)
	c.params = make([]float32, len(c.start))
	stats, err := c.train(p, 1, c.start, c.params)
	if err != nil {
		return err
	}
	switch done := p.StepsDone(); {
	case stats.Steps != c.cfg.Steps:
		c.tell(Failed, "asked for %d steps it did %d", c.cfg.Steps, stats.Steps)
	case done != uint64(stats.Steps):
		c.tell(Failed, "after %d steps *task->steps_done is %d: the peer would take it for hung", stats.Steps, done)
	case differ(c.start, c.params) < 0:
		c.tell(Failed, "%d steps left every parameter as it was", stats.Steps)
	default:
		c.tell(OK, "%d steps, %d tokens, loss %.4f, gradient norm %.4g, %.3g s", stats.Steps, stats.Tokens, stats.Loss,
			stats.GradNorm, stats.Elapsed.Seconds())
	}
	return nil
}

// gradient: the pseudo-gradient is the loaded parameters minus the present ones.
func (c *checker) gradient(p Library) error {
	d := len(c.params)
	want, got := make([]float32, d), make([]float32, d)
	kernel.Sub(want, c.start, c.params)
	for _, half := range [][2]int{{0, d / 2}, {d / 2, d}} {
		if half[0] == half[1] {
			continue
		}
		err := p.GradientRange(c.ctx, half[0], got[half[0]:half[1]])
		if errors.Is(err, errors.ErrUnsupported) {
			c.tell(Skipped, "not offered: the peer subtracts")
			return nil
		}
		if err != nil {
			return err
		}
	}
	c.equal(p, want, got, "against loaded - parameters", "loaded - parameters, to the bit")
	return nil
}

func (c *checker) evaluate(p Library) error {
	first, err := p.Evaluate(c.ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		c.tell(Skipped, "not offered")
		return nil
	}
	if err != nil {
		return err
	}
	second, err := p.Evaluate(c.ctx)
	if err != nil {
		return err
	}
	if first != second {
		c.tell(Note, "%v, and then %v of the same parameters", first, second)
	} else {
		c.tell(OK, "%.4f, after %d steps; %.4f before", first, c.cfg.Steps, c.before)
	}
	return nil
}

// cancel: a run that is cancelled ends soon, and the trainer can be used further.
func (c *checker) cancel(p Library) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ended, before := make(chan error, 1), p.StepsDone()
	go func() {
		_, err := p.Train(ctx, c.task(1, 1_000_000))
		ended <- err
	}()
	if err := untilStep(p, before, ended); err != nil {
		return err
	}
	began := time.Now()
	cancel()
	<-ended
	within, stop := context.WithTimeout(c.ctx, c.cfg.CancelWithin)
	defer stop()
	err := p.Load(within, c.start) // waits for the run
	took := time.Since(began)
	if took > c.cfg.CancelWithin && c.ctx.Err() == nil {
		return fmt.Errorf("the run has not ended within %v", c.cfg.CancelWithin)
	}
	if err == nil {
		_, err = p.Train(c.ctx, c.task(1, 1))
	}
	if err == nil {
		c.tell(OK, "a run of a million steps ended within %v, and the next one ran", took.Round(time.Millisecond))
	}
	return err
}

// untilStep waits until a run does its steps; before is the step count at the end of the last run.
func untilStep(p Library, before uint64, ended <-chan error) error {
	tick := time.Tick(time.Millisecond)
	for {
		if done := p.StepsDone(); done != 0 && done != before {
			return nil
		}
		select {
		case <-tick:
		case err := <-ended:
			return fmt.Errorf("the run ended before it was cancelled: %w", err)
		}
	}
}

// continues: a new trainer that restores goes on like the one that saved.
func (c *checker) continues(p Library) error {
	dir, err := os.MkdirTemp("", "p2pdiloco-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next checks would mean nothing
	file := ""
	if p.About().Saves {
		file = filepath.Join(dir, "state")
	}
	one, err := c.rounds("", file, nil)
	if err != nil {
		return err
	}
	if file == "" {
		c.tell(Skipped, "not offered: after a restart the inner optimizer begins anew")
		return nil
	}
	c.failed(c.name, c.restored(file, one))
	const refuses = "restore refuses"
	c.failed(refuses, c.refuses(p, filepath.Join(dir, "bad"), refuses))
	return nil
}

// rounds has the parameters after two rounds.
type rounds struct{ first, second []float32 }

// rounds does two rounds with a new trainer, with a save between them; or, after a restore, only
// the second one, from the end of the first one. With empty paths it neither saves nor restores.
func (c *checker) rounds(restore, save string, from []float32) (r rounds, err error) {
	p, err := c.open(c.cfg.Library)
	if err != nil {
		return r, err
	}
	defer c.end(p)
	r = rounds{from, make([]float32, len(c.start))}
	if restore != "" {
		err = p.Restore(c.ctx, restore)
	}
	if from == nil && err == nil {
		r.first = make([]float32, len(c.start))
		_, err = c.train(p, 1, c.start, r.first)
	}
	if save != "" && err == nil {
		err = p.Save(c.ctx, save)
	}
	if err == nil {
		_, err = c.train(p, 2, r.first, r.second)
	}
	if from == nil {
		c.report.Rounds = digest(r.first, r.second)
	}
	return r, err
}

// restored compares a round after a restore with the one that followed the save.
func (c *checker) restored(file string, one rounds) error {
	after, err := c.rounds(file, "", one.first)
	if err != nil {
		return err
	}
	anew, err := c.rounds("", "", one.first)
	if err != nil {
		return err
	}
	with, without := relative(one.first, one.second, after.second), relative(one.first, one.second, anew.second)
	switch {
	case with == 0:
		c.tell(OK, "goes on with the same bits (one that does not restore is %.2g of the way off)", without)
	case with > max(c.cfg.Relative, without/2):
		c.tell(Failed, "a new trainer that restores goes on otherwise: %.2g of the way off (one that does not, %.2g)",
			with, without)
	default:
		c.tell(OK, "goes on within %.2g of the way (one that does not restore, %.2g)", with, without)
	}
	return nil
}

// refuses: a file that is not a saved state is refused, and the trainer can be used further.
func (c *checker) refuses(p Library, bad, check string) error {
	if err := os.WriteFile(bad, []byte("this is no saved state"), 0o600); err != nil {
		return err
	}
	if err := p.Restore(c.ctx, bad); err == nil {
		return errors.New("a file with other contents was taken")
	}
	_, err := c.train(p, 1, c.start, make([]float32, len(c.start)))
	if err == nil {
		c.line(check, OK, "a file with other contents, and trains on")
	}
	return err
}
