package step

import (
	"context"
	"encoding/json"
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
)

// HiddenCommand is the command of this program that calls Serve.
const HiddenCommand = "bench-slot-peer"

// order is what a peer's process reads on its stdin.
type order struct {
	Run       string
	Preset    string
	Trust     string
	Number    int // of this peer, from 1
	Peers     int
	Elements  uint64
	Rounds    uint64 // of the whole run
	First     uint64 // slot that counts
	Last      uint64
	Listen    []string
	Bootstrap []string
	DataDir   string
	Profile   string // file for a CPU profile; empty: none
}

// peerReport is what it writes to its stdout at its end.
type peerReport struct {
	Slots  map[uint64]*marks
	Leads  map[string]lead // by record
	Counts Counts          // of all slots that count
	Memory uint64          // most bytes that were resident; 0: the system does not say
}

// peer is one process of the benchmark.
type peer struct {
	order
	recorder *recorder
	meter    meter
	node     *p2pdiloco.Node
	before   Counts // before the first slot that counts
	counts   Counts
	profile  bench.Profile
	failed   error // of the profile
}

// Serve is a peer's process: it takes part in the run that in names until that ends, and then
// writes its report.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	p := &peer{recorder: newRecorder()}
	if err := json.NewDecoder(in).Decode(&p.order); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	if err := p.takePart(ctx); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(peerReport{
		p.recorder.mu.slots, p.recorder.mu.leads, p.counts, bench.PeakMemory(),
	})
}

func (p *peer) takePart(ctx context.Context) (err error) {
	if p.node, err = p2pdiloco.Join(testhooks.With(ctx, p.hooks()), p.config()); err != nil {
		return err
	}
	p.profile.Path = p.Profile
	err = p.node.Run(ctx)
	return errors.Join(err, p.failed, p.profile.End(), p.node.Close())
}

func (p *peer) hooks() *testhooks.Hooks {
	return &testhooks.Hooks{
		Disk:   countedDisk{disk.OS, &p.meter},
		Ledger: p.meter.wrap,
		Offer:  func(slot uint64, _ *allreduce.Contribution) { p.recorder.offered(slot, time.Now()) },
	}
}

func (p *peer) config() p2pdiloco.Config {
	model := newInstant(p.Elements, uint64(p.Number))
	model.loaded, model.trained = p.recorder.loaded, p.trained
	return p2pdiloco.Config{
		Spec: p2pdiloco.Spec{
			Name: p.Run, Rounds: p.Rounds, InnerSteps: 1, StartPeers: uint64(p.Peers), MinPeers: uint64(p.Peers),
			Trust: p.Trust,
		},
		Trainer: model, DataDir: p.DataDir, Preset: p.Preset, Listen: p.Listen, Bootstrap: p.Bootstrap,
		OnEvent: p.recorder.event,
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

// trained notes the end of a slot's inner steps. Slots are counted from there to there.
func (p *peer) trained(slot uint64, at time.Time) {
	p.recorder.trained(slot, at)
	switch slot {
	case p.First:
		p.before = p.meter.read(p.node.Status().Traffic)
		p.failed = p.profile.Begin()
	case p.Last + 1:
		p.counts = p.meter.read(p.node.Status().Traffic).minus(p.before)
	}
}
