package modesbench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

const sampleEvery = 100 * time.Millisecond

// peer is one process of a row, and its measurements.
type peer struct {
	*crew.Peer
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
	return p.Read(func(e eventlog.Line) {
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
