package modesbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

const (
	sampleEvery = 100 * time.Millisecond
	askTimeout  = time.Second
)

// peer is one process of a row, and its measurements.
type peer struct {
	n      int // from 1
	proc   *swarm.Process
	events string // path
	api    string // address

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

// watch samples what the peer has sent until its process has ended or ctx has.
func (p *peer) watch(ctx context.Context) {
	addr, err := api.ParseAddress(p.api)
	if err != nil {
		return
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.ask(ctx, addr)
		case <-p.proc.Ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ask takes one sample. A peer that is starting, busy or gone gives none.
func (p *peer) ask(ctx context.Context, addr api.Address) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var s p2pdiloco.Status
	if _, err := api.Get(ctx, addr, "", &s); err == nil {
		p.sent = append(p.sent, sample{time.Now(), float64(s.Sent)})
	}
}

// readEvents reads all reports of the trainer.
func (p *peer) readEvents() error {
	f := eventlog.Follow(p.events)
	defer f.Close()
	return f.Next(func(b []byte) {
		if e, err := eventlog.Parse(b); err == nil && e.Event == "trainer.stats" {
			p.measured = append(p.measured, measurement{e.Time, e.Round, e.Loss, e.Tokens})
		}
	})
}

// report is what the peer printed at its end.
func (p *peer) report() (r report.Peer, err error) {
	code, ended := p.proc.Exit()
	if !ended || code != 0 {
		return r, fmt.Errorf("peer %d ended with exit status %d; the end of its log:\n%s", p.n, code,
			swarm.Tail(p.proc.Log))
	}
	b, err := os.ReadFile(p.proc.Stdout)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("peer %d: its report: %w", p.n, err)
	}
	if !r.Ended {
		return r, fmt.Errorf("peer %d left before the run had ended; the end of its log:\n%s", p.n,
			swarm.Tail(p.proc.Log))
	}
	return r, nil
}

// removeData removes the data of a peer that has succeeded.
func removeData(dir string, peers int) error {
	var errs []error
	for n := range peers {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, peerName(n+1))))
	}
	return errors.Join(errs...)
}

func peerName(n int) string { return fmt.Sprintf("peer-%d", n) }
