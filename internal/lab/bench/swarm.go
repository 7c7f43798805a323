package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
)

// train trains a row with a seed.
func (c ModesConfig) train(ctx context.Context, row row, w *warm, seed uint64) (made result, err error) {
	err = c.Run(ctx, c.Setting, c.figure(row.name), cellTime, func(ctx context.Context, s Swarm) error {
		peers, run := make([]*measuredPeer, c.Peers), lab.RunName("bench")
		for i := range peers {
			p := &measuredPeer{Peer: s.NewPeer(i+1, s.Dir, fmt.Sprintf("peer-%d", i+1))}
			peers[i] = p
			if i >= c.Peers-row.bad {
				p.Words = []string{c.Executable, hostile.Command, "flip-10", s.Dir}
			}
			args := append(row.args(c, seed, i), "--init", w.model)
			err := errors.Join(hostile.Begin(s.Dir), w.prepare(p.Data, row.model(c).Optimizer),
				s.Join(p.Peer, run, s.Boot, append(args, s.Listen(i+1)...)...))
			if err != nil {
				return err
			}
		}
		var watchers sync.WaitGroup
		for _, p := range peers {
			watchers.Go(func() { p.watch(ctx) })
		}
		watchers.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var errs []error
		for _, p := range peers {
			errs = append(errs, p.end())
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		made, err = c.result(row, peers)
		for _, p := range peers {
			err = errors.Join(err, os.RemoveAll(p.Data))
		}
		return err
	})
	return made, err
}

// result is of peers whose processes have ended well.
func (c ModesConfig) result(row row, peers []*measuredPeer) (made result, err error) {
	begun, curve := curveOf(peers)
	if len(curve) == 0 {
		return made, errors.New("no peer measured the model")
	}
	var sent, payload, peak, stall, all, pace float64
	for i, p := range peers {
		q := p.report
		if q.StateRoot != peers[0].report.StateRoot {
			return made, errors.New("the peers hold different models")
		}
		n := float64(len(peers))
		sent += (float64(q.BytesSent) - valueAt(p.sent, second(begun))) / n
		payload += p.payload / n
		peak += busiest(p.sent, second(begun), c.window()) / n
		stall, all = stall+q.Stall, all+q.Stall+q.Training
		if row.stepTime(c, i) == c.StepTime && q.Tokens > 0 { // a straggler's cores are least busy
			pace = max(pace, q.Training/(float64(q.Tokens/c.batch())*c.StepTime.Seconds()))
		}
	}
	limit := ^uint64(0) // peers that wait for each other have trained on equally many at the end
	if row.mode == "async" {
		limit = c.tokens()
	}
	made = result{curve: curve, figures: map[string]float64{
		"loss": lossAt(curve, limit), "sec/op": curve[len(curve)-1].seconds,
		"payload-B": payload, "control-B": sent - payload, "sent-B": sent,
		"stall-%": 100 * stall / max(all, 1e-9), "step-x-pace": pace,
	}}
	if peak > 0 {
		made.figures["peak-B"] = peak
	}
	return made, nil
}

// window is the time over which peak bandwidth is measured: half of the time between two fragments'
// slots, in seconds. It is 0 if there are too few samples.
func (c ModesConfig) window() float64 {
	w := time.Duration(c.InnerSteps) * c.StepTime / fragments / 2
	if w < 2*sampleEvery {
		return 0
	}
	return w.Seconds()
}

const sampleEvery = 100 * time.Millisecond

// measuredPeer is one process of a row, and its measurements.
type measuredPeer struct {
	*lab.Peer
	measured []eventlog.Line // of trainers: the held-out loss after a round
	sent     []reading       // bytes, by the second of the Unix epoch
	payload  float64         // bytes sent for the all-reduce, as far as they were seen
	report   eventlog.Peer
}

func second(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// watch samples what the peer has sent until its process has ended or ctx has. A peer that is
// starting, busy or gone gives no sample.
func (p *measuredPeer) watch(ctx context.Context) {
	tick := time.Tick(sampleEvery)
	for {
		select {
		case <-tick:
			if s, _, err := p.Ask(ctx); err == nil {
				p.sent = append(p.sent, reading{second(time.Now()), float64(s.Sent)})
				p.payload = float64(s.Traffic.Exchange.Sent)
			}
		case <-p.Ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// end reads what the peer told, and what it printed at its end.
func (p *measuredPeer) end() error {
	if code, _ := p.Exit(); code != 0 {
		return p.Failure()
	}
	var ok bool
	if p.report, ok = p.Report(); !ok || !p.report.Ended {
		return fmt.Errorf("%s left before the run had ended; the end of its log:\n%s", filepath.Base(p.Data),
			lab.Tail(p.Log))
	}
	return p.Read(func(e eventlog.Line) {
		if e.Event == "trainer.stats" {
			p.measured = append(p.measured, e)
		}
	})
}
