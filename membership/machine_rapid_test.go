package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestRandomSchedules lets peers come, go, crash, lose disks, cut each other off and train at
// different speeds, over a network that loses, repeats and reorders. At every moment the watcher's
// invariants hold; and once all that live are back and hear each other, slots are decided again
// (I4).
func TestRandomSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newChaos(t, labTiming)
		t.Repeat(map[string]func(*rapid.T){
			"":        w.check,
			"run":     w.pass,
			"crash":   w.crash,
			"restart": w.restart,
			"cut":     w.cut,
			"heal":    func(*rapid.T) { w.lab.filters = nil; w.lab.connect() },
			"join":    w.join,
			"leave":   w.leave,
			"slow":    w.slow,
			"break":   w.breakDown,
			"want":    w.want,
		})
		w.recover(t)
	})
}

type chaos struct{ lab *lab }

func newChaos(t *rapid.T, timing Timing) *chaos {
	rules := labRules()
	rules.StartPeers = rapid.IntRange(1, 3).Draw(t, "start peers")
	rules.Private = rapid.Bool().Draw(t, "private")
	rules.MaxStaleness = rapid.Uint64Range(0, 1).Draw(t, "staleness")
	rules.Fragments = labFragments(rapid.IntRange(1, 3).Draw(t, "fragments"))
	if len(rules.Fragments) > 1 { // as Spec.Validate has it
		rules.MaxStaleness = 0
	}
	l := newLab(t, rules, timing)
	l.open = rapid.Bool().Draw(t, "open")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	l.delays = func() []time.Duration { return someDelays(rng) }
	for i := range 3 {
		l.add(string(rune('A' + i)))
	}
	l.connect()
	return &chaos{l}
}

// someDelays loses one message in twenty, repeats one in twenty, and holds one in ten up for long.
func someDelays(rng *rand.Rand) []time.Duration {
	d := time.Duration(5+rng.IntN(60)) * time.Millisecond
	switch rng.IntN(20) {
	case 0:
		return nil
	case 1:
		return []time.Duration{d, 3 * d}
	case 2, 3:
		return []time.Duration{20 * d}
	}
	return []time.Duration{d}
}

func (w *chaos) check(t *rapid.T) {
	faults := w.lab.watch.faults
	for _, p := range w.lab.peers { // all are honest
		if p.up() && (len(p.m.evidence.evictions) > 0 || p.m.clones.own != "") {
			faults = append(faults, fmt.Sprintf("%s evicts %v, and takes itself for cloned: %q", p.name,
				p.m.evidence.evictions, p.m.clones.own))
		}
	}
	if len(faults) > 0 {
		t.Fatalf("%s\n%s\n%s", strings.Join(faults, "\n"), strings.Join(w.lab.log, "\n"), w.lab.show())
	}
}

func (w *chaos) one(t *rapid.T, ok func(*labPeer) bool) *labPeer {
	var fit []string
	for _, p := range w.lab.peers {
		if ok(p) {
			fit = append(fit, p.name)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return w.lab.peer(rapid.SampledFrom(fit).Draw(t, "peer"))
}

func (w *chaos) pass(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 40).Draw(t, "tenths")) * 100 * time.Millisecond
	w.lab.run(d, func() bool { return false })
}

func (w *chaos) crash(t *rapid.T) {
	if p := w.one(t, (*labPeer).up); p != nil {
		p.crash()
	}
}

func (w *chaos) restart(t *rapid.T) {
	if p := w.one(t, func(p *labPeer) bool { return !p.up() && !p.gone }); p != nil {
		p.start()
		w.lab.connect()
	}
}

func (w *chaos) cut(t *rapid.T) {
	a, b := w.one(t, (*labPeer).up), w.one(t, (*labPeer).up)
	if a != nil && a != b {
		w.lab.filters = append(w.lab.filters, &labFilter{from: a.name, to: b.name, left: -1})
		if rapid.Bool().Draw(t, "both ways") {
			w.lab.filters = append(w.lab.filters, &labFilter{from: b.name, to: a.name, left: -1})
		}
		w.lab.connect()
	}
}

func (w *chaos) join(*rapid.T) {
	if n := len(w.lab.peers); n < 6 {
		w.lab.add(string(rune('A' + n)))
		w.lab.connect()
	}
}

func (w *chaos) leave(t *rapid.T) {
	up := func(p *labPeer) bool { return p.up() && !p.gone }
	if w.staying() <= w.lab.rules.StartPeers {
		return
	}
	if p := w.one(t, up); p != nil {
		p.gone = true
		p.report(ReportLeave{})
	}
}

func (w *chaos) slow(t *rapid.T) {
	if p := w.one(t, (*labPeer).up); p != nil {
		p.slowness = time.Duration(rapid.IntRange(0, 40).Draw(t, "tenths")) * 100 * time.Millisecond
	}
}

// staying counts the peers that have not left and that nobody takes for removed: the run starts
// with so many at most.
func (w *chaos) staying() (n int) {
	for _, p := range w.lab.peers {
		out := func(q *labPeer) bool { return q.up() && q.m.motions.barred(p.id) }
		if !p.gone && !slices.ContainsFunc(w.lab.peers, out) {
			n++
		}
	}
	return n
}

// want has some operators order a peer out, or back in, or another secret.
func (w *chaos) want(t *rapid.T) {
	of := w.one(t, func(p *labPeer) bool { return p.up() })
	if of == nil || of.m.chain.Height() == 0 {
		return
	}
	o := slot.Motion{Action: slot.Remove, Peer: of.id}
	if of.m.chain.Access().Removed(of.id) {
		o.Action = slot.Readmit
	} else if w.lab.rules.Private && rapid.Bool().Draw(t, "rotates") {
		o = slot.Motion{Action: slot.Rotate}
	}
	for _, p := range w.lab.peers {
		if p.up() && (p != of || o.Action == slot.Rotate) && rapid.IntRange(0, 3).Draw(t, "agrees") > 0 {
			o.Turn = p.m.Standing(o.Peer).Turn
			p.want(o)
		}
	}
}

func (w *chaos) breakDown(t *rapid.T) {
	if p := w.one(t, (*labPeer).up); p != nil {
		p.broken = !p.broken
	}
}

// recover brings all peers back that did not leave, on whole links, and expects three more slots of
// the best chain. Peers of different foundings may have grown too far apart to merge without an
// operator: then the largest group counts.
func (w *chaos) recover(t *rapid.T) {
	l := w.lab
	l.filters, l.delays = nil, nil
	for _, p := range l.peers {
		p.broken, p.slowness = false, 0
		if !p.up() && !p.gone {
			p.start()
		}
	}
	l.connect()
	best := func() (slot uint64) {
		for _, p := range l.peers {
			if p.up() && p.m.model.state.known {
				slot = max(slot, p.m.model.state.slot)
			}
		}
		return slot
	}
	stay := slices.ContainsFunc(l.peers, func(p *labPeer) bool { return !p.gone })
	want := best() + 3
	if !l.run(3*time.Minute, func() bool { return !stay || best() >= want }) && !w.lostQuorum() &&
		(best() > 0 || w.staying() >= l.rules.StartPeers) {
		t.Fatalf("no slot is decided\n%s\n%s", strings.Join(l.log[max(0, len(l.log)-60):], "\n"), l.show())
	}
	w.check(t)
}

// lostQuorum says whether a quorum of every chain's members is gone for good: they left, or crashed
// before they were dropped.
func (w *chaos) lostQuorum() bool {
	for _, p := range w.lab.peers {
		if p.up() && p.m.elector() && p.m.quorum.heard() && !p.m.own.left {
			return false
		}
	}
	return true
}
