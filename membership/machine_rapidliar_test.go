package membership

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// TestRandomLiar is TestRandomSchedules in trust byzantine, with a hostile member
// (machine_liar_test.go) and clocks that jump. At every moment the watcher's invariants hold for
// the honest peers, and none of them is evicted or taken for cloned. Once the honest peers are back
// and hear each other, slots are decided, though the liar goes on; if the liar has a seat and three
// honest electors or fewer are left beside it, nothing is promised.
func TestRandomLiar(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { _ = checks.Value.Set(before) }()
	_ = checks.Value.Set(testlevel.Choose("5", "20", "3000"))
	var worlds, told, evicted, off int
	rapid.Check(t, func(t *rapid.T) {
		w := newLiarsChaos(t)
		defer func() {
			worlds, told = worlds+1, told+w.liar.lies.told
			if w.off {
				off++
			}
			if w.liar.evicted() {
				evicted++
			}
		}()
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
			"jump":    w.jump,
			"format":  w.format,
		})
		w.decides(t)
	})
	t.Logf("%d worlds, %d lies; in %d the liar was evicted, and in %d too few honest electors were left", worlds, told,
		evicted, off)
}

// liarsChaos is a run with a hostile member.
type liarsChaos struct {
	*chaos
	liar *labPeer
	off  bool // the bound does not hold any more
}

func newLiarsChaos(t *rapid.T) *liarsChaos {
	rules := labRules()
	rules.Byzantine, rules.NewcomerShare = true, 500
	rules.StartPeers = rapid.IntRange(4, 7).Draw(t, "peers")
	rules.Private = rapid.Bool().Draw(t, "private")
	rules.Founders = []slot.PeerID{labID("A")} // else any stranger may found the run again (a9)
	l := newLab(t, rules, labTiming)
	l.shuffle(rapid.IntRange(0, 7).Draw(t, "order"))
	l.open = rapid.Bool().Draw(t, "open")
	for i := range rules.StartPeers {
		l.add(string(rune('A' + i)))
	}
	l.connect()
	// Before the first step a second founding may win over this one, whoever decided it.
	if !l.run(time.Minute, func() bool {
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool {
			v := p.m.View()
			return len(v.Tip.Members) < rules.StartPeers || len(v.Tip.Electors()) < 4 ||
				v.AppliedSlot < 1 || v.Applied < v.Tip.Height
		})
	}) {
		t.Fatalf("the run was not founded\n%s", l.show())
	}
	w := &liarsChaos{chaos: &chaos{l}}
	electors := l.peers[0].m.chain.Electorate()
	w.liar = l.peer(labName(electors[rapid.IntRange(0, len(electors)-1).Draw(t, "liar")].Peer))
	newLabLiar(w.liar, rapid.Uint64().Draw(t, "seed"))
	rng := w.liar.lies.r
	l.delays = func() []time.Duration { return someDelays(rng) }
	return w
}

// outvoted says whether an honest peer's chain has an electorate with the liar, and with too few
// others to withstand it.
func (w *liarsChaos) outvoted() bool {
	for _, p := range w.honest() {
		es := p.m.chain.Electorate()
		if slot.Find(es, w.liar.id) >= 0 && len(es) < 4 && p.m.chain.Height() > 0 {
			return true
		}
	}
	return false
}

// honest lists the honest peers that are up.
func (w *liarsChaos) honest() (ps []*labPeer) {
	for _, p := range w.lab.peers {
		if p != w.liar && p.up() {
			ps = append(ps, p)
		}
	}
	return ps
}

func (p *labPeer) evicted() bool {
	return slices.ContainsFunc(p.lab.peers, func(q *labPeer) bool {
		return q.up() && slices.Contains(q.m.chain.Tip().Evicted, p.id)
	})
}

func (w *liarsChaos) check(t *rapid.T) {
	if w.off = w.off || w.outvoted(); w.off {
		return
	}
	faults := w.lab.watch.faults
	for _, p := range w.honest() {
		for _, v := range p.m.evidence.evictions {
			if v.peer != w.liar.id {
				faults = append(faults, fmt.Sprintf("%s evicts %s, which is honest", p.name, labName(v.peer)))
			}
		}
		for _, e := range p.m.chain.Tip().Evicted {
			if e != w.liar.id {
				faults = append(faults, fmt.Sprintf("A3: %s, which is honest, was evicted", labName(e)))
			}
		}
		if p.m.clones.own != "" {
			faults = append(faults, fmt.Sprintf("A6: %s takes itself for cloned: %s", p.name, p.m.clones.own))
		}
	}
	if len(faults) > 0 {
		t.Fatalf("%s\n%s\n%s", strings.Join(faults, "\n"), w.tail(), w.lab.show())
	}
}

func (w *liarsChaos) tail() string {
	log := w.lab.log
	return fmt.Sprintf("%s lies: %v, silent %d%%\n%s", w.liar.name, w.liar.lies.names(), w.liar.lies.mute,
		strings.Join(log[max(0, len(log)-80):], "\n"))
}

func (l *labLiar) names() (names []string) {
	for _, k := range l.kinds {
		names = append(names, labLies[k].name)
	}
	return names
}

// jump lets a peer's clock go ahead, as after a pause of its machine.
func (w *liarsChaos) jump(t *rapid.T) {
	if p := w.one(t, (*labPeer).up); p != nil {
		p.ahead += time.Duration(rapid.IntRange(1, 100).Draw(t, "tenths")) * 100 * time.Millisecond
	}
}

// format restarts a peer that is down with an empty disk.
func (w *liarsChaos) format(t *rapid.T) {
	if p := w.one(t, func(p *labPeer) bool { return !p.up() && !p.gone && p != w.liar }); p != nil {
		p.format()
		p.start()
		w.lab.connect()
	}
}

// crash spares the liar, and a world in which another loss would leave it too strong.
func (w *liarsChaos) crash(t *rapid.T) {
	down := 0
	for _, p := range w.lab.peers {
		if p != w.liar && !p.up() && !p.gone {
			down++
		}
	}
	if p := w.one(t, func(p *labPeer) bool { return p.up() && p != w.liar }); p != nil && down == 0 {
		p.crash()
	}
}

func (w *liarsChaos) leave(t *rapid.T) {
	if len(w.honest()) <= 5 {
		return
	}
	if p := w.one(t, func(p *labPeer) bool { return p.up() && !p.gone && p != w.liar }); p != nil {
		p.gone = true
		p.report(ReportLeave{})
	}
}

func (w *liarsChaos) join(*rapid.T) {
	if n := len(w.lab.peers); n < 9 {
		w.lab.add(string(rune('A' + n)))
		w.lab.connect()
	}
}

// newest is the chain of the honest peer that is furthest.
func (w *liarsChaos) newest() (best *labPeer) {
	for _, p := range w.honest() {
		if best == nil || p.m.chain.Height() > best.m.chain.Height() {
			best = p
		}
	}
	return best
}

// enough says whether the honest electors that live are a quorum.
func (w *liarsChaos) enough() bool {
	p := w.newest()
	return p != nil && w.lab.rules.Quorum(p.m.chain.Electorate(), func(e slot.Member) bool {
		q := w.lab.peer(labName(e.Peer))
		return q != nil && q != w.liar && q.up() && q.inc == e.Incarnation && !q.m.own.leaving
	})
}

// decides brings all honest peers back, on whole links, and expects three more slots, whatever the
// liar says.
func (w *liarsChaos) decides(t *rapid.T) {
	l := w.lab
	l.filters, l.delays = nil, nil
	for _, p := range l.peers {
		p.broken, p.slowness = false, 0
		if !p.up() && !p.gone {
			p.start()
		}
	}
	l.connect()
	slot := func() (s uint64) {
		for _, p := range w.honest() {
			if p.m.model.state.known {
				s = max(s, p.m.model.state.slot)
			}
		}
		return s
	}
	want := slot() + 3
	if !l.run(3*time.Minute, func() bool { return slot() >= want }) {
		if w.off = w.off || w.outvoted() || !w.enough(); !w.off {
			t.Fatalf("no slot is decided\n%s\n%s", w.tail(), l.show())
		}
	}
	w.check(t)
}
