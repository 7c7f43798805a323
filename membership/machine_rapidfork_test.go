package membership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// TestRandomForks is TestRandomSchedules with forks, groups cut apart, and deaths for good. Besides
// the invariants: once those that live are back and hear each other they end on one chain and
// decide slots, however few they are; only branches too old to be given up by themselves may stay
// apart, and then each goes on.
func TestRandomForks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timing := labTiming
		timing.ForkAfter = time.Duration(rapid.IntRange(20, 40).Draw(t, "fork after, tenths")) * 100 * time.Millisecond
		w := newChaos(t, timing)
		w.lab.rules.StartPeers = 1 // else the peers that are left may be too few to begin
		for _, p := range w.lab.peers {
			p.m.cfg.Rules.StartPeers = 1
			changeRules(p.m, func(r *chain.Rules) { r.StartPeers = 1 })
			p.slowness = 600 * time.Millisecond
		}
		t.Repeat(map[string]func(*rapid.T){
			"":        w.check,
			"run":     w.pass,
			"crash":   w.crash,
			"restart": w.restart,
			"part":    w.part,
			"heal":    func(*rapid.T) { w.lab.filters = nil; w.lab.connect() },
			"join":    w.join,
			"die":     w.die,
		})
		w.reunite(t)
	})
}

// part cuts the peers into two groups.
func (w *chaos) part(t *rapid.T) {
	var here, there []string
	for _, p := range w.lab.peers {
		if rapid.Bool().Draw(t, p.name) {
			here = append(here, p.name)
		} else {
			there = append(there, p.name)
		}
	}
	if len(here) == 0 || len(there) == 0 {
		return
	}
	a, b := strings.Join(here, ","), strings.Join(there, ",")
	w.lab.filters = []*labFilter{{from: a, to: b, left: -1}, {from: b, to: a, left: -1}}
	w.lab.connect()
}

// die ends a peer for good, unless it is the last one.
func (w *chaos) die(t *rapid.T) {
	living := len(w.lab.peers)
	for _, p := range w.lab.peers {
		if p.gone {
			living--
		}
	}
	if p := w.one(t, func(p *labPeer) bool { return !p.gone }); p != nil && living > 1 {
		p.gone = true
		p.crash()
	}
}

func (w *chaos) reunite(t *rapid.T) {
	l := w.lab
	l.filters, l.delays = nil, nil
	var living []*labPeer
	for _, p := range l.peers {
		if p.gone {
			continue
		}
		p.broken, p.slowness = false, 300*time.Millisecond
		if !p.up() {
			p.start()
		}
		living = append(living, p)
	}
	l.connect()
	one := func() bool {
		for _, p := range living {
			v := p.m.View()
			if !v.IsMember || len(v.Tip.Members) != len(living) || v.Tip.Hash() != living[0].m.View().Tip.Hash() {
				return false
			}
		}
		return true
	}
	old := func() bool {
		return slices.ContainsFunc(living, func(p *labPeer) bool { return len(p.m.competing.refused) > 0 })
	}
	lost := func() bool { // no living peer has any state
		return !slices.ContainsFunc(living, func(p *labPeer) bool { return p.m.model.state.known })
	}
	if !l.run(3*time.Minute, func() bool { return one() || old() }) {
		if lost() {
			return
		}
		t.Fatalf("not on one chain\n%s\n%s", strings.Join(l.log[max(0, len(l.log)-80):], "\n"), l.show())
	}
	slot := map[*labPeer]uint64{}
	for _, p := range living {
		slot[p] = p.m.View().AppliedSlot
	}
	if !l.run(time.Minute, func() bool {
		return !slices.ContainsFunc(living, func(p *labPeer) bool { return p.m.View().AppliedSlot < slot[p]+3 }) ||
			old() && w.goesOn(living, slot)
	}) && !lost() {
		// one peer is on one chain with itself, though its state died with those it was to be had
		// of
		t.Fatalf("no slot is decided\n%s\n%s", strings.Join(l.log[max(0, len(l.log)-60):], "\n"), l.show())
	}
	w.check(t)
}

// goesOn says whether somebody has decided three slots more.
func (w *chaos) goesOn(living []*labPeer, since map[*labPeer]uint64) bool {
	return slices.ContainsFunc(living, func(p *labPeer) bool { return p.m.View().AppliedSlot >= since[p]+3 })
}
