package attacks

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

const (
	peers     = 8
	liars     = 2 // f of these
	strangers = 4 // that join founders
	firstLie  = 4 // slot of the first lie, but for strangers

	pace = 10 * time.Millisecond // of an inner step
	late = 12 * time.Millisecond // of a bad peer's: it knows what honest ones have offered
)

// bout is one run with bad peers, or without any.
type bout struct {
	s           *nodetest.Swarm
	ctx         context.Context // ends with the run
	attack      attack
	honest, bad []*nodetest.Peer

	mu    sync.Mutex
	known map[place][]float32       // what peers have truly offered last
	began map[*nodetest.Peer]uint64 // slot of a bad peer's first lie
	named map[*nodetest.Peer]uint64 // slot in which an honest peer named it first
	gone  map[*nodetest.Peer]bool   // evicted
	wrong []string                  // what honest peers said of each other
	// ledger is of the first honest peer, and is read when its node has ended
	ledger *membership.Driver
}

// place names whose contribution something is, and to which fragment.
type place struct {
	peer     *nodetest.Peer
	fragment uint64
}

// trial is what became of a bout.
type trial struct {
	Seed    uint64   `json:"seed"`
	Loss    float64  `json:"loss"`
	Lied    int      `json:"lied"`    // bad peers
	Named   int      `json:"named"`   // of these
	After   uint64   `json:"after"`   // slots, until the last was; 1: in its first lie's
	Evicted int      `json:"evicted"` // bad peers
	Late    []string `json:"late"`    // of each that was not named in time: why it should have been
	Last    []uint64 `json:"last"`    // of each bad peer: the slot of its last contribution
	Left    float64  `json:"left"`    // loss if they leave then; 0: not measured
	Accused []string `json:"accused,omitempty"`
	Bad     marks    `json:"bad_marks"`    // of contributions by bad peers
	Honest  marks    `json:"honest_marks"` // of contributions by honest ones
}

// play runs a bout in virtual time.
func play(t *testing.T, cfg config, sc *school, a attack, bad int, mode string, seed uint64) (r trial, ok bool) {
	r.Seed = seed
	name := fmt.Sprintf("%s-%s-%d-seed-%d", mode, a.name, bad, seed)
	ok = t.Run(name, func(t *testing.T) {
		spec := cfg.spec(a, bad, mode, seed)
		nodetest.RunOver(t, sim.NewMemory, 10*time.Millisecond, spec, 0, func(s *nodetest.Swarm) {
			ctx, cancel := context.WithCancel(s.T.Context())
			defer cancel()
			b := &bout{
				s: s, ctx: ctx, attack: a, known: map[place][]float32{}, began: map[*nodetest.Peer]uint64{},
				named: map[*nodetest.Peer]uint64{}, gone: map[*nodetest.Peer]bool{},
			}
			b.run(t, sc, bad)
			b.marked(&r.Honest, &r.Bad)
			r.Loss, r.Accused, r.Lied = b.loss(), b.wrong, len(b.began)
			for _, p := range b.bad {
				r.take(b, p)
			}
		})
	})
	return r, ok
}

// take takes in what became of a bad peer.
func (r *trial) take(b *bout, p *nodetest.Peer) {
	if at, ok := b.named[p]; ok {
		r.Named++
		r.After = max(r.After, at+1-min(b.began[p], at))
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
func (c config) spec(a attack, bad int, mode string, seed uint64) p2pdiloco.Spec {
	spec := p2pdiloco.Spec{
		Name: "attacks", Rounds: c.slots, InnerSteps: c.inner, StartPeers: uint64(peers - max(0, bad-2)),
		Seed: seed, Mode: mode,
	}
	if mode != p2pdiloco.ModeAsync { // which has an outer optimizer of its own
		spec.Outer, spec.OuterLR, spec.Momentum = "nesterov", "0.7", "0.6"
	}
	if a.founders > 0 {
		spec.StartPeers = uint64(a.founders)
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
	if b.attack.founders > 0 {
		all = b.attack.founders + bad
	}
	first := int(b.s.Spec.StartPeers)
	for i := range all {
		p := b.s.Add()
		if i >= all-bad {
			b.bad = append(b.bad, p)
			p.Trainer = sc.student(t, late)
			b.attack.arm(b, p)
			continue
		}
		b.honest = append(b.honest, p)
		learner := sc.student(t, pace)
		if i == 0 {
			learner.losses = []float64{sc.loss}
		}
		p.Trainer = learner
		p.Hooks = func(h *testhooks.Hooks) {
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

// lies says whether a bad peer lies in a slot, and notes when it began.
func (b *bout) lies(p *nodetest.Peer, slotNumber uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slotNumber < firstLie && b.attack.founders == 0 {
		return false
	}
	if b.attack.again && b.known[b.place(p, slotNumber)] == nil {
		return false
	}
	b.begin(p, slotNumber)
	return true
}

// begins notes that a bad peer lies in a slot.
func (b *bout) begins(p *nodetest.Peer, slotNumber uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(p, slotNumber)
}

func (b *bout) begin(p *nodetest.Peer, slotNumber uint64) {
	if _, ok := b.began[p]; !ok {
		b.began[p] = slotNumber
	}
}

// hear takes in an event of an honest peer: whom it names, and whom the run evicts.
func (b *bout) hear(p *nodetest.Peer, e p2pdiloco.Event) {
	switch e.Name {
	case "slot.applied":
		if p == b.honest[0] {
			b.ledger = p.Ledger()
		}
		return
	case "peer.stands_out", "peer.suspected", "peer.evicted":
	case "peer.refused":
		if detail, _ := e.Fields["detail"].(string); b.attack.refused == "" ||
			!strings.Contains(detail, b.attack.refused) {
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
	i := slices.IndexFunc(b.bad, func(q *nodetest.Peer) bool { return b.s.ID(q) == about })
	if i < 0 {
		// the twin of a copy cannot be told from it, and is told so
		if b.attack.name != "copy" || e.Fields["finding"] != "same_bytes" {
			b.wrong = append(b.wrong, fmt.Sprintf("slot %d: %s, %v, %v", now, e.Name, e.Fields["finding"],
				e.Fields["detail"]))
		}
		return
	}
	if began, ok := b.began[b.bad[i]]; ok && now >= began {
		if _, ok := b.named[b.bad[i]]; !ok {
			b.named[b.bad[i]] = now
		}
	}
	b.gone[b.bad[i]] = b.gone[b.bad[i]] || e.Name == "peer.evicted"
}

// note keeps what a peer truly offers.
func (b *bout) note(p *nodetest.Peer, slotNumber uint64, c *allreduce.Contribution) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[b.place(p, slotNumber)] = hostile.Values(c)
}

func (b *bout) place(p *nodetest.Peer, slotNumber uint64) place {
	return place{p, slotNumber % max(1, b.s.Spec.Fragments)}
}

// offered is what a peer has truly offered last, to the fragment of a slot.
func (b *bout) offered(p *nodetest.Peer, slotNumber uint64) []float32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[b.place(p, slotNumber)]
}

// overHonest makes each value of the mean and the standard deviation of the honest peers'.
func (b *bout) overHonest(slotNumber uint64, x []float32, of func(mean, sd float64) float64) {
	var all [][]float32
	for _, p := range b.honest {
		if got := b.offered(p, slotNumber); len(got) == len(x) {
			all = append(all, got)
		}
	}
	for i := range x {
		sum, squares := 0.0, 0.0
		for _, v := range all {
			sum += float64(v[i])
			squares += float64(v[i]) * float64(v[i])
		}
		n := max(1, float64(len(all)))
		mean := sum / n
		x[i] = float32(of(mean, math.Sqrt(max(0, squares/n-mean*mean))))
	}
}
