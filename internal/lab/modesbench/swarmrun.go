package modesbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// settleTime is for starting, finding each other, the last slot and leaving, on a loaded machine.
const settleTime = 2 * time.Minute

var errLate = errors.New("it took far longer than its inner steps do, and was stopped")

// swarmRun is one row in one seed: a bootstrap node and the peers.
type swarmRun struct {
	cfg      Config
	row      row
	seed     uint64
	warm     *warm
	place    place
	dir      string // exists
	sockets  string // folder with a short path
	launcher *swarm.Launcher
	boot     swarm.Boot
	peers    []*peer
}

// run trains the row, and returns its results when all its processes have ended.
func (s *swarmRun) run(ctx context.Context, hurry <-chan struct{}) (Trial, error) {
	s.launcher = swarm.NewLauncher()
	defer s.launcher.Close()
	err := s.train(ctx)
	s.stop(hurry)
	if err != nil {
		return Trial{}, err
	}
	return s.result()
}

func (s *swarmRun) train(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 4*s.row.span(s.cfg)+settleTime, errLate)
	defer cancel()
	if err := s.start(ctx); err != nil {
		return err
	}
	var watchers sync.WaitGroup
	for _, p := range s.peers {
		watchers.Go(func() { p.watch(ctx) })
	}
	watchers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// start starts the bootstrap node and the peers, which learn nothing of each other but its
// addresses.
func (s *swarmRun) start(ctx context.Context) (err error) {
	start := func(site int) func(name string, args ...string) (*swarm.Process, error) {
		return func(name string, args ...string) (*swarm.Process, error) {
			return s.launcher.StartCommand(s.place.command(site, s.cfg.Executable, args...), s.dir, name)
		}
	}
	if s.boot, err = swarm.StartBoot(ctx, s.dir, start(0), s.place.listen(0)...); err != nil {
		return err
	}
	name := swarm.RunName("bench")
	for n := range s.cfg.Peers {
		p := &peer{
			n: n + 1, events: filepath.Join(s.dir, peerName(n+1)+".events"),
			api: "unix:" + filepath.Join(s.sockets, strconv.Itoa(n+1)),
		}
		if err := s.warm.prepare(filepath.Join(s.dir, peerName(p.n))); err != nil {
			return err
		}
		if p.proc, err = start(p.n)(peerName(p.n), s.args(name, p)...); err != nil {
			return err
		}
		s.peers = append(s.peers, p)
	}
	return nil
}

// args are a peer's command line.
func (s *swarmRun) args(name string, p *peer) []string {
	c := s.cfg
	args := []string{
		"join", "--run", name, "--preset", "lan", "--json", "--log-level", "info", "--events", p.events, "--api", p.api,
		"--data-dir", filepath.Join(s.dir, peerName(p.n)), "--init", s.warm.path(warmModel), "--step-time",
		s.row.stepTime(c, p.n-1).String(),
	}
	args = append(args, s.place.listen(p.n)...)
	for _, a := range s.boot.Addrs {
		args = append(args, "--bootstrap", a)
	}
	return append(args, s.row.args(c, s.seed)...)
}

// args are the run's settings, of a row in a seed.
func (r row) args(c Config, seed uint64) []string {
	args := []string{
		"--start-peers", strconv.Itoa(c.Peers), "--rounds", strconv.FormatUint(r.rounds, 10), "--inner-steps",
		strconv.FormatUint(c.InnerSteps, 10),
		"--seed", strconv.FormatUint(seed, 10), "--aggregator", "mean", "--mode", r.mode, "--held-out",
		strconv.Itoa(heldOut),
	}
	m := c.Model.WithDefaults()
	args = append(args, "--model", fmt.Sprintf("layers=%d,width=%d,heads=%d,context=%d,batch=%d", m.Layers, m.Width,
		m.Heads, m.Context, m.Batch))
	for _, d := range c.Data {
		args = append(args, "--data", d)
	}
	return append(args, r.settings...)
}

func (s *swarmRun) stop(hurry <-chan struct{}) {
	var running []*swarm.Process
	for _, p := range s.peers {
		running = append(running, p.proc)
	}
	if s.boot.Process != nil {
		running = append(running, s.boot.Process)
	}
	swarm.StopAll(running, hurry)
}

// result sums up the processes, which have ended.
func (s *swarmRun) result() (Trial, error) {
	r := Trial{Seed: s.seed, Identical: true}
	reports := make([]report.Peer, len(s.peers))
	var errs []error
	for i, p := range s.peers {
		var err error
		reports[i], err = p.report()
		errs = append(errs, err, p.readEvents())
	}
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	begun, curve := curveOf(s.peers)
	if len(curve) == 0 {
		return r, fmt.Errorf("no peer measured the model; logs are in %s", s.dir)
	}
	r.Curve, r.Seconds = curve, curve[len(curve)-1].Seconds
	window := s.cfg.window()
	for i, p := range s.peers {
		q := reports[i]
		r.Identical = r.Identical && q.StateRoot == reports[0].StateRoot
		r.Parameters = q.Parameters
		r.Peers = append(r.Peers, PeerRun{
			Sent: float64(q.BytesSent) - at(p.sent, begun), Peak: busiest(p.sent, begun, window), Tokens: q.Tokens,
			Training: q.Training, Stall: q.Stall,
		})
	}
	if !r.Identical {
		return r, fmt.Errorf("the peers hold different models; logs are in %s", s.dir)
	}
	return r, removeData(s.dir, s.cfg.Peers)
}

// window is the time over which peak bandwidth is measured: half of the time between two fragments'
// slots. It is 0 if there are too few samples.
func (c Config) window() time.Duration {
	w := time.Duration(c.InnerSteps) * c.StepTime / fragments / 2
	if w < 2*sampleEvery {
		return 0
	}
	return w
}

// folder makes the row's folder in a seed, below a folder of this bench, because the files of an
// earlier bench belong to other runs.
func folder(runs string, r row, seed uint64) (string, error) {
	dir := filepath.Join(runs, fmt.Sprintf("seed-%d", seed),
		strings.ReplaceAll(strings.ReplaceAll(r.name, ",", ""), " ", "-"))
	return dir, os.MkdirAll(dir, 0o755)
}
