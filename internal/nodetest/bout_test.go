package nodetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

const (
	peers     = 8
	liars     = 2 // f of these
	strangers = 4 // that join founders, and lie from the start
	firstLie  = 4 // slot after the one before whose end no other lies

	pace = 10 * time.Millisecond // of an inner step
	late = 12 * time.Millisecond // of a bad peer's: it knows what honest ones have offered
)

// bout is one run with bad peers, or without any.
type bout struct {
	s           *Swarm
	ctx         context.Context // ends with the run
	attack      attack
	founders    int    // that strangers join; 0: no strangers
	folder      string // of bad peers
	honest, bad []*Peer

	mu    sync.Mutex
	known map[place][]float32 // what honest peers have offered last
	named map[*Peer][]uint64  // slots in which honest peers named a bad one
	gone  map[*Peer]bool      // evicted
	wrong []string            // what honest peers said of each other
	// ledger is of the first honest peer, and is read when its node has ended
	ledger *membership.Driver
}

// place names whose contribution something is, and to which fragment.
type place struct {
	peer     *Peer
	fragment uint64
}

// trial is what became of a bout.
type trial struct {
	Seed    uint64
	Loss    float64
	Lied    int      // bad peers
	Named   int      // of these
	After   uint64   // slots, until the last was; 1: in its first lie's
	Evicted int      // bad peers
	Late    []string // of each that was not named in time: why it should have been
	Last    []uint64 // of each bad peer: the slot of its last contribution
	Left    float64  // loss if they leave then; 0: not measured
	Accused []string
}

// play runs a bout in virtual time.
func play(t *testing.T, cfg config, sc *school, a attack, bad int, mode string, seed uint64) (r trial, ok bool) {
	r.Seed = seed
	what := cmp.Or(a.kind, fmt.Sprint("leave-after-", a.leave))
	name := fmt.Sprintf("%s-%s-%d-seed-%d", mode, what, bad, seed)
	ok = t.Run(name, func(t *testing.T) {
		spec := cfg.spec(bad, mode, seed)
		RunOver(t, sim.NewMemory, spec, 0, func(s *Swarm) {
			ctx, cancel := context.WithCancel(s.T.Context())
			defer cancel()
			b := &bout{
				s: s, ctx: ctx, attack: a, founders: cfg.founders, folder: t.TempDir(), known: map[place][]float32{},
				named: map[*Peer][]uint64{}, gone: map[*Peer]bool{},
			}
			b.run(t, sc, bad)
			r.Loss, r.Accused = b.loss(), b.wrong
			for _, p := range b.bad {
				r.take(b, p)
			}
		})
	})
	return r, ok
}

// take takes in what became of a bad peer.
func (r *trial) take(b *bout, p *Peer) {
	began := b.began(p)
	if began > 0 {
		r.Lied++
	}
	if at := b.firstNamed(p); at > 0 {
		r.Named++
		r.After = max(r.After, at+1-began)
	}
	if why := b.late(p); why != "" {
		r.Late = append(r.Late, why)
	}
	if b.gone[p] {
		r.Evicted++
	}
	last := uint64(0)
	for _, n := range b.taken(p) {
		last = max(last, n)
	}
	r.Last = append(r.Last, last)
}

// spec is that of the run. Bad peers beyond f, and strangers, join when it is under way.
func (c config) spec(bad int, mode string, seed uint64) p2pdiloco.Spec {
	spec := p2pdiloco.Spec{
		Name: "attacks", Rounds: c.slots, InnerSteps: c.inner, StartPeers: uint64(peers - max(0, bad-2)),
		Seed: seed, Mode: mode, Codec: c.codec,
	}
	// they have an outer optimizer of their own
	if mode != p2pdiloco.ModeAsync && !strings.HasPrefix(c.codec, codec.TopK) {
		spec.Outer, spec.OuterLR, spec.Momentum = "nesterov", "0.7", "0.6"
	}
	if c.founders > 0 {
		spec.StartPeers = uint64(c.founders)
	}
	if mode == p2pdiloco.ModeStreaming {
		spec.Fragments = 2
		spec.Rounds = max(1, c.slots/2)
	}
	return spec
}

// run runs the swarm to its end. The first bad peer is no first peer, whose losses count.
func (b *bout) run(t *testing.T, sc *school, bad int) {
	all := peers
	if b.founders > 0 {
		all = b.founders + bad
		b.begin()
	}
	first := int(b.s.Spec.StartPeers)
	for i := range all {
		p := b.s.Add()
		if i >= all-bad {
			b.bad = append(b.bad, p)
			p.Trainer = sc.student(t, late)
			b.arm(p)
			continue
		}
		b.honest = append(b.honest, p)
		learner := sc.student(t, pace)
		if i == 0 {
			learner.losses = []float64{sc.loss}
		}
		p.Trainer = learner
		p.Hooks = func(h *edge.Hooks) {
			h.Offer = func(slotNumber uint64, c *allreduce.Contribution) { b.note(p, slotNumber, c) }
		}
		p.OnEvent = func(e p2pdiloco.Event) { b.hear(p, e) }
	}
	b.s.Start(b.s.Peers[:first]...)
	if first < all {
		b.s.Reach(1, b.honest...)
		b.s.Start(b.s.Peers[first:]...)
	}
	b.s.Finish(2*time.Hour, b.honest...)
}

// loss is the held-out loss in the end.
func (b *bout) loss() float64 {
	losses := b.honest[0].Trainer.(*student).losses
	return losses[len(losses)-1]
}

// begin has bad peers lie from now on.
func (b *bout) begin() {
	if err := hostile.Begin(b.folder); err != nil {
		b.s.T.Error(err)
	}
}

// firstNamed is the first slot, from a bad peer's first lie on, in which an honest one named it; 0:
// none did.
func (b *bout) firstNamed(p *Peer) uint64 {
	began := b.began(p)
	for _, at := range b.named[p] {
		if began > 0 && at >= began {
			return at
		}
	}
	return 0
}

// hear takes in an event of an honest peer: whom it names, and whom the run evicts.
func (b *bout) hear(p *Peer, e p2pdiloco.Event) {
	switch e.Name {
	case "slot.applied":
		if p == b.honest[0] {
			b.ledger = p.Ledger()
			if e.Fields["slot"].(uint64)+1 >= firstLie {
				b.begin()
			}
		}
		return
	case "peer.stands_out", "peer.suspected", "peer.evicted":
	case "peer.refused":
		kind, _ := hostile.Find(b.attack.kind)
		if reason, _ := e.Fields["reason"].(string); !slices.Contains(kind.Named, reason) {
			return
		}
	default:
		return
	}
	about, ok := e.Fields["about"].(p2pdiloco.PeerID)
	if !ok {
		return
	}
	now := p.Applied() + 1
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.bad, func(q *Peer) bool { return b.s.ID(q) == about })
	if i < 0 {
		// the twin of a copy cannot be told from it, and is told so
		if b.attack.kind != "copy" || e.Fields["finding"] != "same_bytes" {
			b.wrong = append(b.wrong, fmt.Sprintf("slot %d: %s, %v, %v", now, e.Name, e.Fields["finding"],
				e.Fields["detail"]))
		}
		return
	}
	b.named[b.bad[i]] = append(b.named[b.bad[i]], now)
	b.gone[b.bad[i]] = b.gone[b.bad[i]] || e.Name == "peer.evicted"
}

// note keeps what an honest peer offers.
func (b *bout) note(p *Peer, slotNumber uint64, c *allreduce.Contribution) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[b.place(p, slotNumber)] = c.Values()
}

func (b *bout) place(p *Peer, slotNumber uint64) place {
	return place{p, slotNumber % max(1, b.s.Spec.Fragments)}
}

// offered is what honest peers have offered last, to the fragment of a slot.
func (b *bout) offered(slotNumber uint64) (all [][]float32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.honest {
		if x := b.known[b.place(p, slotNumber)]; x != nil {
			all = append(all, x)
		}
	}
	return all
}
