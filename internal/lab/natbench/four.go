package natbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Sites of the four peers' world. Hosts have their sites' numbers.
const (
	siteBoot = iota
	siteRelay
	sitePublic
	siteHome
	siteDouble
	siteSymmetric
	siteSpare // where the peer of siteHome moves to
)

var fourSites = []nat.Site{
	siteBoot: {Kind: nat.Public}, siteRelay: {Kind: nat.Public}, sitePublic: {Kind: nat.Public},
	siteHome: {Kind: nat.PortRestricted}, siteDouble: {Kind: nat.DoubleNAT}, siteSymmetric: {Kind: nat.Symmetric},
	siteSpare: {Kind: nat.PortRestricted, LAN: spareLAN},
}

// four is the run of four peers.
type four struct {
	*bench
	result *Four
	dir    string
	boots  []*daemon // the bootstrap node, and a second relay
	peers  []*peer
	moved  int // index of the peer that moves
	opened time.Time
	slot   uint64
	sent   uint64 // by all, when the slot was opened
	name   string // of the run
	gate   string // file with the newest slot to train for
}

// four lets four peers train: two behind different routers, one behind a symmetric one and one with
// a public address. It starts the slots one by one, and disturbs each in another way.
func (b *bench) four(ctx context.Context) (*Four, error) {
	f := &four{
		bench: b, result: &Four{}, dir: filepath.Join(b.cfg.Dir, "four"), name: swarm.RunName("nat"),
		moved: siteHome - sitePublic,
	}
	f.gate = filepath.Join(f.dir, "gate")
	err := b.in(ctx, fourSites, func() error {
		if err := f.open(ctx); err != nil {
			return err
		}
		for _, s := range f.steps() {
			step, err := f.run(ctx, s)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f.result.Steps = append(f.result.Steps, step)
			f.note("%s", step)
			if err != nil {
				// the next steps would start from a run that stands still
				f.result.Error = err.Error()
				f.note("%v", err)
				return nil
			}
		}
		return nil
	})
	return f.result, err
}

// open starts two relaying nodes and the four.
func (f *four) open(ctx context.Context) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	if err := f.let(0); err != nil {
		return err
	}
	for _, host := range []int{siteBoot, siteRelay} {
		d, err := f.startDaemon(ctx, host, filepath.Join(f.dir, fmt.Sprintf("bootstrap-%d", host+1)), f.name)
		if err != nil {
			return err
		}
		f.boots = append(f.boots, d)
	}
	sizes, parameters := model(f.cfg.Size)
	f.result.Parameters = parameters
	run := []string{
		"--run", f.name, "--start-peers", "4", "--rounds", "10000", "--checkpoint-every", "100", "--model", sizes,
		"--gate", f.gate,
	}
	for host := sitePublic; host <= siteSymmetric; host++ {
		p, err := f.start(host, f.dir, fmt.Sprintf("peer-%d-%s", host-sitePublic+1, f.world.Kind(host)), f.boots,
			run...)
		if err != nil {
			return err
		}
		f.peers = append(f.peers, p)
		f.result.Peers = append(f.result.Peers, string(p.kind))
	}
	return nil
}

// let has the peers train for slots up to n.
func (f *four) let(n uint64) error {
	next := f.gate + ".next"
	if err := os.WriteFile(next, []byte(strconv.FormatUint(n, 10)+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(next, f.gate)
}

// look asks all peers for their status, and returns an error if one has ended.
func (f *four) look(ctx context.Context) error {
	var errs []error
	for _, p := range f.peers {
		p.ask(ctx)
		errs = append(errs, p.read(), p.failed())
	}
	return errors.Join(errs...)
}

// await looks until done returns true. It fails when the time is over.
func (f *four) await(ctx context.Context, within time.Duration, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s: not within %v", what, within))
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if err := f.look(ctx); err != nil {
			return err
		}
		if done() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ways are how the four reach each other now.
func (f *four) ways() (all []Pair) {
	for i, a := range f.peers {
		for _, b := range f.peers[i+1:] {
			w, ok := wayBetween(a, b)
			all = append(all, Pair{A: a.kind, B: b.kind, Connected: ok, Last: Way{Name: w.Way, Transport: w.Transport}})
		}
	}
	return all
}
