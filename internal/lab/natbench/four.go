package natbench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
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

// patience is how many times a pair's limit a slot of the four may take.
const patience = 4

// four is the run of four peers.
type four struct {
	*bench
	result *Four
	dir    string
	boots  []*relay // the bootstrap node, and a second relay
	peers  []*peer
	opened time.Time
	slot   uint64
	sent   uint64 // by all, when the slot was opened
	run    string // its name
}

// four lets four peers train: two behind different routers, one behind a symmetric one and one with
// a public address. It starts the slots one by one, and disturbs each in another way.
func (b *bench) four(ctx context.Context) (*Four, error) {
	f := &four{bench: b, result: &Four{}, dir: filepath.Join(b.cfg.Dir, "four"), run: swarm.RunName("nat")}
	err := b.in(ctx, fourSites, func() error {
		if err := f.open(ctx); err != nil {
			return err
		}
		for _, s := range f.steps() {
			step, err := f.take(ctx, s)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				step.Error = err.Error()
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
	for _, host := range []int{siteBoot, siteRelay} {
		r, err := f.startRelay(ctx, host, filepath.Join(f.dir, fmt.Sprintf("bootstrap-%d", host+1)), f.run)
		if err != nil {
			return err
		}
		f.boots = append(f.boots, r)
	}
	if err := f.let(0); err != nil {
		return err
	}
	sizes, parameters := model(f.cfg.Size)
	f.result.Parameters = parameters
	for host := sitePublic; host <= siteSymmetric; host++ {
		name := fmt.Sprintf("peer-%d-%s", host-sitePublic+1, f.world.Kind(host))
		p, err := f.start(host, f.dir, name, f.run, f.boots,
			"--start-peers", "4", "--checkpoint-every", "100", "--model", sizes, "--gate", f.gate())
		if err != nil {
			return err
		}
		f.peers = append(f.peers, p)
		f.result.Peers = append(f.result.Peers, string(p.kind))
	}
	return nil
}

// gate is the file with the newest slot to train for.
func (f *four) gate() string { return filepath.Join(f.dir, "gate") }

// let has the peers train for slots up to n.
func (f *four) let(n uint64) error { return crew.OpenGate(f.gate(), n) }

// await follows the peers until done returns true. It fails when the time is over.
func (f *four) await(ctx context.Context, within time.Duration, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s: not within %v", what, within))
	defer cancel()
	return await(ctx, f.peers, done)
}

// take lets a slot begin and watches it. It returns an error if the slot does not end.
func (f *four) take(ctx context.Context, s step) (r Step, err error) {
	f.slot++
	r = Step{What: s.what, Slot: f.slot}
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return r, err
		}
	}
	f.opened, f.sent = time.Now(), f.total()
	if err := f.let(f.slot); err != nil {
		return r, err
	}
	limit := patience * f.cfg.Limit
	if s.during != nil {
		if err := f.await(ctx, limit, "a quarter of the slot's bytes", f.midway); err != nil {
			return r, err
		}
		if r.Note, err = s.during(ctx); err != nil {
			return r, err
		}
	}
	err = f.await(ctx, limit, fmt.Sprintf("slot %d at all peers", f.slot),
		func() bool { return f.holding(f.slot) == len(f.peers) })
	f.measure(&r)
	if err == nil && !r.Equal {
		err = fmt.Errorf("the state roots after slot %d differ", f.slot)
	}
	if err == nil && s.after != nil {
		err = s.after(ctx)
	}
	return r, err
}

// total is the number of bytes that all peers have sent.
func (f *four) total() (n uint64) {
	for _, p := range f.peers {
		n += p.status.Sent
	}
	return n
}

// midway says whether a quarter of a slot's bytes was sent, or the slot is over.
func (f *four) midway() bool {
	n := uint64(len(f.peers))
	slot := 2 * (n - 1) * 4 * f.result.Parameters // bytes: each sends 2(N-1)/N of the vector
	return f.total() > f.sent+slot/4 || f.holding(f.slot) > 0
}

// holding is how many peers have a slot's state, or a later one's.
func (f *four) holding(slot uint64) (n int) {
	for _, p := range f.peers {
		if p.last >= slot {
			n++
		}
	}
	return n
}

// measure takes in what the peers' events say of the slot.
func (f *four) measure(r *Step) {
	var roots []string
	var times []time.Time
	for _, p := range f.peers {
		if h := p.slots[r.Slot]; h.root != "" {
			roots, times = append(roots, h.root), append(times, h.at)
			r.Contributors = max(r.Contributors, h.contributors)
		}
	}
	if len(roots) == 0 {
		return
	}
	slices.SortFunc(times, time.Time.Compare)
	r.First = since(f.opened, times[0])
	if f.holding(r.Slot) == len(f.peers) {
		r.All = since(f.opened, times[len(times)-1])
	}
	slices.Sort(roots)
	r.Equal = roots[0] == roots[len(roots)-1]
}
