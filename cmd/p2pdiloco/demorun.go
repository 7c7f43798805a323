package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/view/document"
)

// runDemo runs a demo to its end. hurry ends the waiting for processes that were asked to stop. An
// error means that there is no result; a result that is not OK means that the demo ran and did not
// show what it should.
func runDemo(ctx context.Context, cfg demoConfig, hurry <-chan struct{}) (demoResult, error) {
	corpus, err := builtin.OpenCorpus(ctx, builtin.CorpusConfig{Paths: cfg.Data})
	if err != nil {
		return demoResult{}, err
	}
	if _, err := builtin.New(builtin.Config{Seed: cfg.Spec.Seed}, corpus); err != nil {
		// fails with too little text, for example; once, and before anything starts
		return demoResult{}, err
	}
	r, err := runSwarm(ctx, cfg, hurry)
	if err != nil {
		return r, err
	}
	if err := compare(ctx, cfg, corpus, &r); err != nil {
		return r, err
	}
	summarizeDemo(cfg.Out, cfg, r)
	return r, nil
}

func runSwarm(ctx context.Context, cfg demoConfig, hurry <-chan struct{}) (demoResult, error) {
	processes, err := lab.NewSwarm(
		lab.Setting{Executable: cfg.Executable, Dir: cfg.Dir, Out: cfg.Out, Hurry: hurry}, lab.Loopback{})
	if err != nil {
		return demoResult{}, err
	}
	defer processes.Close()
	s := &demoSwarm{Swarm: processes, Notes: lab.NewNotes(cfg.Out), cfg: cfg, run: lab.RunName("demo")}
	if err := s.start(ctx); err != nil {
		return demoResult{}, err
	}
	s.Note(fmt.Sprintf("run %s: %d peers, %d rounds of %d steps, %s", s.run, cfg.Peers, cfg.Spec.Rounds,
		cfg.Spec.InnerSteps, cfg.Spec.Aggregator))
	err = s.watch(ctx)
	wall := s.Elapsed().Seconds()
	s.Stop()
	if err != nil && !errors.Is(err, errStuck) {
		return demoResult{}, err
	}
	if err != nil {
		s.Note(err.Error())
		_, _ = s.look() // reads how the processes ended that were stopped just now
	}
	r := s.result()
	r.WallSeconds = wall
	if err := writeDemoReport(cfg); err != nil {
		return r, err
	}
	r.Report = cfg.Report
	s.Note("Report of the run: " + r.Report)
	return r, nil
}

// writeDemoReport writes what the peers have measured.
func writeDemoReport(cfg demoConfig) error {
	var peers []document.Peer
	for n := range cfg.Peers {
		p, err := readPeer(filepath.Join(cfg.Dir, peerName(n+1)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if len(p.Slots) > 0 { // it may have ended before
			peers = append(peers, p)
		}
	}
	return writeDocument(cfg.Report, peers)
}

// compare adds the loss curve and what one peer alone would have reached.
func compare(ctx context.Context, cfg demoConfig, corpus *builtin.Corpus, r *demoResult) (err error) {
	fmt.Fprintf(cfg.Out, "\nTraining one peer alone for comparison: %d steps...\n", cfg.Spec.Rounds*cfg.Spec.InnerSteps)
	if r.AloneLosses, err = trainAlone(ctx, cfg, corpus); err != nil {
		return err
	}
	if err := drawCurve(cfg.Curve, cfg.Peers, r.Losses, r.AloneLosses); err != nil {
		return err
	}
	r.LossCurve = cfg.Curve
	return nil
}

// maxThreads is where more cores stop helping so small a model.
const maxThreads = 8

// trainAlone trains the same model from the same start, by itself, for as many inner steps as each
// demoPeer of the swarm did. It returns the held-out loss before the first round and after each. An
// outer step of SGD with rate 1 on one contribution moves the anchor to just where the trainer is,
// so there is none to do here.
func trainAlone(ctx context.Context, cfg demoConfig, corpus *builtin.Corpus) ([]float64, error) {
	t, err := builtin.New(builtin.Config{Seed: cfg.Spec.Seed, Threads: min(runtime.NumCPU(), maxThreads)}, corpus)
	if err != nil {
		return nil, err
	}
	self := p2pdiloco.PeerID("alone")
	task := p2pdiloco.Task{
		Steps:   int(cfg.Spec.InnerSteps),
		Seed:    cfg.Spec.Seed,
		Self:    self,
		Members: []p2pdiloco.PeerID{self},
	}
	var losses []float64
	for {
		loss, err := t.Evaluate(ctx)
		if losses = append(losses, loss); err != nil || task.Slot == cfg.Spec.Rounds {
			return losses, err
		}
		task.Slot++
		if _, err := t.Train(ctx, task); err != nil {
			return losses, err
		}
	}
}

// drawCurve writes an SVG of the held-out loss by round.
func drawCurve(path string, peers int, swarm, alone []float64) error {
	p := document.Plot{Title: "Held-out loss", X: "round", Y: "nats per byte", Series: []document.Series{
		{Name: fmt.Sprintf("swarm of %d peers", peers), Y: swarm},
		{Name: "one peer alone, as many steps of its own", Y: alone},
	}}
	for i := range p.Series {
		for round := range p.Series[i].Y {
			p.Series[i].X = append(p.Series[i].X, float64(round))
		}
	}
	if err := os.WriteFile(path, p.Draw(), 0o644); err != nil {
		return fmt.Errorf("loss curve: %w", err)
	}
	return nil
}
