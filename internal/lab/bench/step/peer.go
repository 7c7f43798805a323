package step

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// HiddenCommand is the command of this program that calls Serve.
const HiddenCommand = "bench-peer"

// order is what a peer's process reads on its stdin: a whole node one, others more.
type order struct {
	Case      Case
	Run       string
	Slots     uint64 // that count
	Number    int    // of this peer, from 1
	Listen    []string
	Bootstrap []string // in the second order, of all peers
	DataDir   string
	Profile   string    // file for a CPU profile; empty: none
	Plan      slot.Plan // in the second order
}

// answer is what it writes to its stdout after each.
type answer struct {
	Memory uint64 // most bytes that were resident; 0: the system does not say

	// of a whole node, at its end
	Slots  map[uint64]*marks
	Leads  map[string]lead // by record
	Counts Counts          // of all slots that count

	// of others: to the first order, when a reduction is complete, and when it is for all peers
	Offer   slot.Offer
	Addrs   []string
	Seconds float64
	CPU     float64   // seconds
	Sent    uint64    // bytes of streams
	Outcome slot.Root // hash of it
}

// peer is a process that is a whole node.
type peer struct {
	order
	recorder *recorder
	meter    meter
	node     *p2pdiloco.Node
	before   Counts // before the first slot that counts
	counts   Counts
	profiled func() error
	failed   error // of the profile
}

// Serve is a peer's process.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	orders, answers := gob.NewDecoder(in), gob.NewEncoder(out)
	var o order
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	if o.Case.Alone {
		return serveAlone(ctx, o, orders, answers)
	}
	p := &peer{order: o, recorder: newRecorder()}
	if err := p.takePart(ctx); err != nil {
		return err
	}
	return answers.Encode(answer{
		Slots: p.recorder.mu.slots, Leads: p.recorder.mu.leads, Counts: p.counts, Memory: bench.PeakMemory(),
	})
}

func (p *peer) takePart(ctx context.Context) (err error) {
	if p.node, err = p2pdiloco.Join(testhooks.With(ctx, p.hooks()), p.config()); err != nil {
		return err
	}
	err = p.node.Run(ctx)
	if p.profiled != nil {
		err = errors.Join(err, p.profiled())
	}
	return errors.Join(err, p.failed, p.node.Close())
}

func (p *peer) hooks() *testhooks.Hooks {
	return &testhooks.Hooks{
		Disk:   countedDisk{disk.OS, &p.meter},
		Ledger: p.meter.wrap,
		Offer:  func(slot uint64, _ *allreduce.Contribution) { p.recorder.offered(slot, time.Now()) },
	}
}

func (p *peer) config() p2pdiloco.Config {
	model := newInstant(p.Case.elements(), uint64(p.Number))
	model.loaded, model.trained = p.recorder.loaded, p.trained
	return p2pdiloco.Config{
		Spec:    p.Case.spec(p.Run, p.order.Slots),
		Trainer: model, DataDir: p.DataDir, Preset: p.Case.preset(), Listen: p.Listen, Bootstrap: p.Bootstrap,
		OnEvent: p.recorder.event,
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

// trained notes the end of a slot's inner steps. Slots are counted from there to there.
func (p *peer) trained(slot uint64, at time.Time) {
	p.recorder.trained(slot, at)
	switch slot {
	case warmUps + 1:
		p.before = p.meter.read(p.node.Status().Traffic)
		p.profiled, p.failed = bench.Profile(p.Profile)
	case warmUps + p.Slots + 1:
		p.counts = p.meter.read(p.node.Status().Traffic).minus(p.before)
	}
}
