package modes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// settleTime is for starting, finding each other, the last slot and leaving, on a loaded machine.
const settleTime = 2 * time.Minute

var errLate = errors.New("it took far longer than its inner steps do, and was stopped")

// swarmRun is one row in one seed: a bootstrap node and the peers.
type swarmRun struct {
	*bench
	row   row
	seed  uint64
	dir   string // exists
	swarm *swarm.Swarm
	peers []*peer
}

// train trains a row in a seed, and returns its results when all its processes have ended.
func (b *bench) train(ctx context.Context, r row, seed uint64) (_ Trial, err error) {
	s := &swarmRun{bench: b, row: r, seed: seed}
	if s.dir, err = folder(b.runs, r, seed); err != nil {
		return Trial{}, err
	}
	if s.swarm, err = swarm.New(b.cfg.Setting, b.testbed); err != nil {
		return Trial{}, err
	}
	defer s.swarm.Close()
	err = s.run(ctx)
	s.swarm.Stop()
	if err != nil {
		return Trial{}, err
	}
	return s.result()
}

func (s *swarmRun) run(ctx context.Context) error {
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
func (s *swarmRun) start(ctx context.Context) error {
	boot, err := s.swarm.StartBoot(ctx, 0, s.dir, s.swarm.Listen(0)...)
	if err != nil {
		return err
	}
	name := swarm.RunName("bench")
	for i := range s.cfg.Peers {
		p := &peer{Peer: s.swarm.NewPeer(i+1, s.dir, fmt.Sprintf("peer-%d", i+1))}
		if err := s.warm.prepare(p.Data); err != nil {
			return err
		}
		args := append([]string{
			"--preset", "lan", "--log-level", "info", "--init", s.warm.path(warmModel),
			"--step-time", s.row.stepTime(s.cfg, i).String(),
		}, s.row.args(s.cfg, s.seed)...)
		if err := s.swarm.Join(p.Peer, name, boot.Addrs, append(args, s.swarm.Listen(i+1)...)...); err != nil {
			return err
		}
		s.peers = append(s.peers, p)
	}
	return nil
}

// args are the run's settings, of a row in a seed.
func (r row) args(c Config, seed uint64) []string {
	args := []string{
		"--start-peers", fmt.Sprint(c.Peers), "--rounds", fmt.Sprint(r.rounds), "--inner-steps",
		fmt.Sprint(c.InnerSteps), "--seed", fmt.Sprint(seed), "--aggregator", "mean", "--mode", r.mode,
		"--held-out", fmt.Sprint(heldOut), "--model", c.model(),
	}
	for _, d := range c.Data {
		args = append(args, "--data", d)
	}
	return append(args, r.settings...)
}

// result sums up the processes, which have ended.
func (s *swarmRun) result() (Trial, error) {
	r := Trial{Seed: s.seed, Identical: true}
	reports := make([]report.Peer, len(s.peers))
	var errs []error
	for i, p := range s.peers {
		var err error
		reports[i], err = p.report()
		errs = append(errs, err, p.measure())
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
		r.Peers = append(r.Peers, PeerRun{
			Sent: float64(q.BytesSent) - at(p.sent, begun), Peak: busiest(p.sent, begun, window), Tokens: q.Tokens,
			Training: q.Training, Stall: q.Stall,
		})
	}
	if !r.Identical {
		return r, fmt.Errorf("the peers hold different models; logs are in %s", s.dir)
	}
	for _, p := range s.peers {
		errs = append(errs, os.RemoveAll(p.Data))
	}
	return r, errors.Join(errs...)
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

const sampleEvery = 100 * time.Millisecond

// peer is one process of a row, and its measurements.
type peer struct {
	*swarm.Peer
	measured []measurement
	sent     []sample
}

// measurement is a trainer's report of a round.
type measurement struct {
	at     time.Time
	round  uint64
	loss   float64
	tokens uint64 // trained on since the last
}

// sample is how much had been sent at a moment.
type sample struct {
	at    time.Time
	bytes float64
}

// watch samples what the peer has sent until its process has ended or ctx has. A peer that is
// starting, busy or gone gives no sample.
func (p *peer) watch(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if s, _, err := p.Ask(ctx); err == nil {
				p.sent = append(p.sent, sample{time.Now(), float64(s.Sent)})
			}
		case <-p.Ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// measure reads all reports of the trainer.
func (p *peer) measure() error {
	return p.Read(func(_ []byte, e eventlog.Line) {
		if e.Event == "trainer.stats" {
			p.measured = append(p.measured, measurement{e.Time, e.Round, e.Loss, e.Tokens})
		}
	})
}

// report is what the peer printed at its end.
func (p *peer) report() (r report.Peer, err error) {
	if code, _ := p.Exit(); code != 0 {
		return r, p.Failure()
	}
	r, ok := p.Report()
	if !ok || !r.Ended {
		return r, fmt.Errorf("%s left before the run had ended; the end of its log:\n%s", filepath.Base(p.Data),
			swarm.Tail(p.Log))
	}
	return r, nil
}
