package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// honest lists the honest peers that are up.
func (w *chaos) honest() (ps []*labPeer) {
	for _, p := range w.peers {
		if p.lies == nil && p.up() {
			ps = append(ps, p)
		}
	}
	return ps
}

// newest is the honest peer whose chain is the longest. Nil if none is up.
func (w *chaos) newest() (best *labPeer) {
	for _, p := range w.honest() {
		if best == nil || p.m.chain.Height() > best.m.chain.Height() {
			best = p
		}
	}
	return best
}

// outvoted says whether an honest peer's chain has an electorate that does not withstand its liars.
func (w *chaos) outvoted() bool {
	return slices.ContainsFunc(w.honest(), func(p *labPeer) bool {
		es, n := p.m.chain.Electorate(), 0
		for _, q := range w.liars {
			n += btoi(slot.Find(es, q.id) >= 0)
		}
		return p.m.chain.Height() > 0 && n > w.rules.Liars(len(es))
	})
}

// check says what has gone wrong so far.
func (w *chaos) check(t *rapid.T) {
	w.off = w.off || w.outvoted()
	faults := slices.Clone(w.watch.faults)
	if w.off { // honest peers do not contradict themselves
		faults = slices.DeleteFunc(faults, func(f string) bool { return !strings.HasPrefix(f, "I6") })
	}
	lies := func(id slot.PeerID) bool {
		return slices.ContainsFunc(w.liars, func(p *labPeer) bool { return p.id == id })
	}
	for _, p := range w.honest() {
		for _, v := range p.m.evidence.evictions {
			if !lies(v.peer) {
				faults = append(faults, fmt.Sprintf("%s evicts %s, which is honest", p.name, labName(v.peer)))
			}
		}
		for _, e := range p.m.chain.Tip().Evicted {
			if !lies(e) && !w.off {
				faults = append(faults, fmt.Sprintf("A3: %s, which is honest, was evicted", labName(e)))
			}
		}
		if lies := p.certifiedLies(); w.rules.Audits() && len(lies) > 0 && !w.off {
			faults = append(faults, fmt.Sprintf("%s has %d false segments certified", p.name, len(lies)))
		}
		if p.m.clones.own != "" {
			faults = append(faults, fmt.Sprintf("A6: %s takes itself for cloned: %s", p.name, p.m.clones.own))
		}
	}
	if len(faults) > 0 {
		w.fail(t, strings.Join(faults, "\n"))
	}
}

func (w *chaos) fail(t *rapid.T, what string) {
	for _, p := range w.liars {
		what += fmt.Sprintf("\n%s lies: %v, silent %d%%", p.name, p.lies.names(), p.lies.mute)
	}
	t.Fatalf("%s\n%s\n%s", what, strings.Join(w.log[max(0, len(w.log)-80):], "\n"), w.show())
}

func (l *labLiar) names() (names []string) {
	for _, k := range l.kinds {
		names = append(names, k.name)
	}
	return names
}

// lives says whether an elector is an honest peer that is up and stays, and has not refused to move
// to a branch: that takes an operator.
func (w *chaos) lives(e slot.Member) bool {
	return slices.ContainsFunc(w.honest(), func(p *labPeer) bool {
		return p.id == e.Peer && p.inc == e.Incarnation && !p.m.own.leaving && !p.m.own.left &&
			len(p.m.competing.refused) == 0
	})
}

// works says whether enough honest peers train, can reduce, and are on one chain with a peer.
// Different foundings may have grown too far apart to merge without an operator.
func (w *chaos) works(with *labPeer) bool {
	n := 0
	for _, p := range w.honest() {
		n += btoi(p.trains && !p.broken && !p.m.own.leaving && !w.removed(p) && onOneChain(p, with))
	}
	return n >= w.rules.MinPeers
}

func onOneChain(p, q *labPeer) bool {
	a, b := p.m.chain, q.m.chain
	return a.Has(b.Height(), b.TipHash()) || b.Has(a.Height(), a.TipHash())
}

// starts says whether a peer's chain has started, or as many peers as that takes can come to it.
// Those that have refused to move to another founding stay with their own: each had two members.
func (w *chaos) starts(with *labPeer) bool {
	return w.slots() > 0 || w.rules.StartPeers <= w.staying(func(p *labPeer) bool {
		return p.up() && !p.gone &&
			(onOneChain(p, with) || len(p.m.competing.refused) == 0 && len(with.m.competing.refused) == 0)
	})
}

// slots is the newest slot that an honest peer has the state after.
func (w *chaos) slots() (s uint64) {
	for _, p := range w.honest() {
		if p.m.model.state.known {
			s = max(s, p.m.model.state.slot)
		}
	}
	return s
}

// can says whether slots can be decided: on some chain a quorum lives, or so many that they fork
// without the others, enough peers train, and the newest state has not died with all that held it.
func (w *chaos) can() bool {
	return !w.off && !w.outvoted() && slices.ContainsFunc(w.honest(),
		func(p *labPeer) bool {
			return w.starts(p) && w.works(p) && w.goesOn(p) && p.m.chain.Tip().Slot <= w.slots()
		})
}

// goesOn says whether those that live can go on with a peer's chain. They fork only while they hear
// no quorum. A liar is heard and need not vote: with it and a dead elector more are faulty than the
// run withstands, and an operator has to remove one.
func (w *chaos) goesOn(p *labPeer) bool {
	rules := w.rules
	heard := func(e slot.Member) bool {
		return w.lives(e) || slices.ContainsFunc(w.liars, func(q *labPeer) bool { return q.id == e.Peer })
	}
	if w.timing.ForkAfter > 0 && (len(w.liars) == 0 || !rules.Quorum(p.m.chain.Electorate(), heard)) {
		if !rules.Byzantine {
			_, member := chain.FindMember(p.m.chain.Members(), p.id, p.inc)
			return member && p.m.model.state.known && !p.m.own.leaving
		}
		rules.Byzantine = false // more than half fork, or half with rank 0
	}
	return p.m.chain.Height() == 0 || rules.Quorum(p.m.chain.Electorate(), w.lives)
}

// await heals links and workers, and expects slots to be decided if a quorum of the newest record's
// electors lives and enough peers train, whoever else is down.
func (w *chaos) await(t *rapid.T) {
	w.heal(t)
	for _, p := range w.peers {
		p.broken = false
	}
	quorum := func() bool {
		p := w.newest()
		return p != nil && p.m.chain.Height() > 0 && w.can() && w.works(p) &&
			w.rules.Quorum(p.m.chain.Electorate(), w.lives)
	}
	want := w.slots() + 2
	if quorum() && !w.run(time.Minute, func() bool { return w.slots() >= want }) && quorum() {
		w.fail(t, fmt.Sprintf("a quorum lives, and slot %d is not decided", want))
	}
}

// end brings all honest peers back that did not leave, on whole links, and expects three more
// slots, however the liars go on. Where peers fork and none lies, all end on one chain.
func (w *chaos) end(t *rapid.T) {
	w.filters, w.delays = nil, nil
	for _, p := range w.peers {
		p.broken, p.slowness = false, 300*time.Millisecond
		p.cutPower(0, powerfs.None, p.store.unsynced)
		if !p.up() && !p.gone {
			p.start()
		}
	}
	w.connect()
	want := w.slots() + 3
	if !w.run(3*time.Minute, func() bool { return w.slots() >= want }) && w.can() {
		w.fail(t, fmt.Sprintf("slot %d is not decided", want))
	}
	if w.timing.ForkAfter > 0 && len(w.liars) == 0 {
		w.reunite(t)
	}
	w.check(t)
	w.checkSeats(t)
}

// reunite expects all that live and are not removed on one chain, and further slots of it, however
// few they are. Only branches too old to be given up by themselves may stay apart, and then one
// goes on.
func (w *chaos) reunite(t *rapid.T) {
	// who is removed on one branch may be none on the one that all move to
	stay := func() []*labPeer {
		return slices.DeleteFunc(slices.Clone(w.peers), func(p *labPeer) bool { return p.gone || w.removed(p) })
	}
	one := func() bool {
		living := stay()
		return !slices.ContainsFunc(living, func(p *labPeer) bool {
			v := p.m.View()
			return !v.IsMember || len(v.Tip.Members) != len(living) || v.Tip.Hash() != living[0].m.View().Tip.Hash()
		})
	}
	old := func() bool {
		return slices.ContainsFunc(w.honest(), func(p *labPeer) bool { return len(p.m.competing.refused) > 0 })
	}
	if !w.run(3*time.Minute, func() bool { return one() || old() }) && w.can() {
		w.fail(t, "not on one chain")
	}
	living, since := stay(), map[*labPeer]uint64{}
	for _, p := range living {
		since[p] = p.m.View().AppliedSlot
	}
	behind := func(p *labPeer) bool { return p.m.View().AppliedSlot < since[p]+3 }
	ahead := func(p *labPeer) bool { return !behind(p) }
	if !w.run(time.Minute, func() bool {
		return !slices.ContainsFunc(living, behind) || old() && slices.ContainsFunc(living, ahead)
	}) && w.can() {
		w.fail(t, "no slot is decided on one chain")
	}
}

// checkSeats says whether somebody had a seat that never contributed, beside the first ones and
// those that forked (BYZANTINE 5, 9).
func (w *chaos) checkSeats(t *rapid.T) {
	p := w.newest()
	if p == nil || w.off || !w.rules.Byzantine {
		return
	}
	earned := map[slot.PeerID]bool{}
	for _, k := range p.m.chain.Commits() {
		for _, o := range k.Record.Contributions {
			earned[o.Peer] = true
		}
		for _, e := range k.Record.Members {
			if e.Since == k.Record.Height && e.Credit > 0 || k.Record.Kind == slot.Fork {
				earned[e.Peer] = true // one of the first, or of those that are left
			}
			if e.Elects() && !earned[e.Peer] {
				w.fail(t, fmt.Sprintf("%s has a seat and never contributed", labName(e.Peer)))
			}
		}
	}
}
