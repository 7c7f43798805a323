package modes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// settleTime is for starting, finding each other, the last slot and leaving, on a loaded machine.
const settleTime = 2 * time.Minute

var errLate = errors.New("it took far longer than its inner steps do, and was stopped")

// trial is one row in one seed.
type trial struct {
	curve  []point
	values []bench.Value
}

// train trains a row in a seed, and returns its results when all its processes have ended.
func (b *run) train(ctx context.Context, r row, seed uint64) (t trial, err error) {
	s, err := swarm.New(b.cfg.Setting, b.testbed)
	if err != nil {
		return t, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, 4*r.span(b.cfg)+settleTime, errLate)
	defer cancel()
	dir := filepath.Join(b.dir, fmt.Sprintf("seed-%d-%s", seed, r.name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return t, err
	}
	boot, err := s.StartBoot(ctx, 0, dir, s.Listen(0)...)
	if err != nil {
		return t, err
	}
	peers := make([]*peer, b.cfg.Peers)
	name := swarm.RunName("bench")
	for i := range peers {
		p := &peer{Peer: s.NewPeer(i+1, dir, fmt.Sprintf("peer-%d", i+1))}
		peers[i] = p
		args := append(r.args(b.cfg, seed, i), "--init", b.warm.model)
		if err := errors.Join(b.warm.prepare(p.Data), s.Join(p.Peer, name, boot.Addrs, append(args, s.Listen(i+1)...)...)); err != nil {
			return t, err
		}
	}
	var watchers sync.WaitGroup
	for _, p := range peers {
		watchers.Go(func() { p.watch(ctx) })
	}
	watchers.Wait()
	if ctx.Err() != nil {
		return t, context.Cause(ctx)
	}
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.end(), os.RemoveAll(p.Data))
	}
	if err := errors.Join(errs...); err != nil {
		return t, err
	}
	return b.cfg.result(r, peers)
}

// result sums up peers whose processes have ended well.
func (c Config) result(r row, peers []*peer) (t trial, err error) {
	begun, curve := curveOf(peers)
	if len(curve) == 0 {
		return t, errors.New("no peer measured the model")
	}
	var sent, peak, stall, all, pace float64
	for i, p := range peers {
		q := p.report
		if q.StateRoot != peers[0].report.StateRoot {
			return t, errors.New("the peers hold different models")
		}
		n := float64(len(peers))
		sent += (float64(q.BytesSent) - at(p.sent, begun)) / n
		peak += busiest(p.sent, begun, c.window()) / n
		stall, all = stall+q.Stall, all+q.Stall+q.Training
		if r.stepTime(c, i) == c.StepTime && q.Tokens > 0 { // a straggler's cores are least busy
			pace = max(pace, q.Training/(float64(q.Tokens/c.batch())*c.StepTime.Seconds()))
		}
	}
	limit := ^uint64(0) // peers that wait for each other have trained on equally many at the end
	if r.mode == modeAsync {
		limit = c.tokens()
	}
	t = trial{curve, []bench.Value{
		{X: lossAt(curve, limit), Unit: "loss"}, {X: curve[len(curve)-1].seconds, Unit: "sec/op"},
		{X: sent, Unit: "sent-B"}, {X: 100 * stall / max(all, 1e-9), Unit: "stall-%"},
		{X: pace, Unit: "step-x-pace"},
	}}
	if peak > 0 {
		t.values = append(t.values, bench.Value{X: peak, Unit: "peak-B"})
	}
	return t, nil
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

const sampleEvery = 100 * time.Millisecond

// peer is one process of a row, and its measurements.
type peer struct {
	*swarm.Peer
	measured []measurement
	sent     []sample
	report   report.Peer
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

// end reads what the peer told, and what it printed at its end.
func (p *peer) end() error {
	if code, _ := p.Exit(); code != 0 {
		return p.Failure()
	}
	var ok bool
	if p.report, ok = p.Report(); !ok || !p.report.Ended {
		return fmt.Errorf("%s left before the run had ended; the end of its log:\n%s", filepath.Base(p.Data),
			swarm.Tail(p.Log))
	}
	return p.Read(func(_ []byte, e eventlog.Line) {
		if e.Event == "trainer.stats" {
			p.measured = append(p.measured, measurement{e.Time, e.Round, e.Loss, e.Tokens})
		}
	})
}
