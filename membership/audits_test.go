package membership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// auditedLab is a run of members that train, may lie, and audit outcomes; f of 3f+1 may lie. It has
// decided a step.
func auditedLab(t *testing.T, names string, change ...func(*chain.Rules)) *lab {
	t.Helper()
	rules := labRules()
	rules.Byzantine, rules.AuditSamples, rules.StartPeers = true, 8, len(names)
	for _, c := range change {
		c(&rules)
	}
	l := connectedLab(t, rules, labTiming, names)
	l.awaits(t, "two steps", func() bool {
		return l.slots() >= 2 && len(l.peers[0].m.chain.Electorate()) == len(names)
	})
	return l
}

// slots is the newest slot that all that are up and honest have the state after.
func (l *lab) slots() uint64 {
	least := ^uint64(0)
	for _, p := range l.peers {
		if p.up() && !p.auditor.lies() {
			least = min(least, p.m.model.state.slot)
		}
	}
	return least
}

// lies says whether a peer has done what audits find.
func (a labAuditor) lies() bool { return a.forges || a.hides != "" }

// goesOn expects further slots.
func (l *lab) goesOn(t *testing.T, slots uint64) {
	t.Helper()
	if want := l.slots() + slots; !l.run(2*time.Minute, func() bool { return l.slots() >= want }) {
		t.Fatalf("slot %d is not decided\n%s\n%s", want, strings.Join(l.log[max(0, len(l.log)-40):], "\n"), l.show())
	}
	for _, f := range l.watch.faults {
		t.Error(f)
	}
}

// onlyEvicted expects that the honest have evicted nobody but these.
func (l *lab) onlyEvicted(t *testing.T, ps ...*labPeer) {
	t.Helper()
	for _, p := range l.peers {
		if !p.up() || slices.Contains(ps, p) {
			continue
		}
		for _, v := range p.m.evidence.evictions {
			if !slices.ContainsFunc(ps, func(q *labPeer) bool { return q.id == v.peer }) {
				t.Errorf("%s evicts %s", p.name, labName(v.peer))
			}
		}
		if lies := p.certifiedLies(); len(lies) > 0 {
			t.Errorf("%s has %d false segments certified", p.name, len(lies))
		}
	}
}

// leading waits until a peer of the lab leads and some condition holds of what it leads.
func (l *lab) leading(t *testing.T, ok func(p *labPeer, lead *leading) bool) (leader *labPeer) {
	t.Helper()
	l.awaits(t, "there is such a leader", func() bool {
		i := slices.IndexFunc(l.peers, func(p *labPeer) bool {
			return p.up() && p.m.open.lead != nil && ok(p, p.m.open.lead)
		})
		if i >= 0 {
			leader = l.peers[i]
		}
		return i >= 0
	})
	return leader
}

// A leader that gives a step's draft up drafts the same group again in its next try: what owners
// signed in the try before is no good there.
func TestTheNextTryShowsWhatOwnersSignInIt(t *testing.T) {
	l := auditedLab(t, "ABCD")
	for _, p := range l.peers {
		p.auditor.delay = 50 * time.Millisecond
	}
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
		return lead.ref.Ballot == 0 && lead.draft != nil && lead.draft.Record.Kind == slot.Step
	})
	group, height := leader.m.open.lead.group, leader.m.open.ref.Height
	leader.m.drafter.giveUp()
	leader.flush()
	l.within(t, 10*time.Second, "the height is decided", func() bool { return leader.m.chain.Height() >= height })
	if r := leader.m.chain.At(height); r.Kind != slot.Step ||
		leader.m.open.last != nil && leader.m.open.last.Group() == group {
		t.Errorf("decided is a %s", r.Kind)
	}
	if k := leader.m.chain.Commits()[height-1]; k.Certificate.Ballot != 1 {
		t.Errorf("decided in ballot %d", k.Certificate.Ballot)
	}
	l.goesOn(t, 2)
	l.onlyEvicted(t)
}

// What an owner that lies has stated is not decided: an elector finds the lie, and all know of it.
// The leader has the slot reduced without that owner in its next try, and the record after drops
// it. Large proofs are asked for.
func TestAnOwnerThatIsProvenToLie(t *testing.T) {
	for name, padding := range map[string]int{"gossiped": 0, "asked for": ungossiped} {
		t.Run(name, func(t *testing.T) {
			l := auditedLab(t, "ABCDEFG") // of four, a lost one is dropped before the slot
			l.audits.padding = padding
			leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
				return lead.ref.Ballot == 0 && lead.plan == nil
			})
			height, owner := leader.m.open.ref.Height, l.aside(leader, 1)
			owner.auditor.forges = true
			l.awaits(t, "the next height is decided", func() bool { return leader.m.chain.Height() >= height+1 })
			k := leader.m.chain.Commits()[height-1]
			if k.Record.Kind != slot.Step || k.Certificate.Term() != 1 {
				t.Errorf("a %s record is decided in ballot %d\n%s", k.Record.Kind, k.Certificate.Ballot,
					strings.Join(l.log[max(0, len(l.log)-30):], "\n"))
			}
			if slices.Contains(offerers(k.Record.Contributions), owner.id) {
				t.Error("the slot is decided with the owner")
			}
			l.within(t, 10*time.Second, "the owner is no member", func() bool { return l.without(owner) })
			if !slices.Contains(leader.m.chain.Tip().Evicted, owner.id) && leader.m.chain.Height() == height+1 {
				t.Error("the record after does not evict it")
			}
			l.goesOn(t, 2)
			l.onlyEvicted(t, owner)
			if l.audits.found == 0 {
				t.Error("no audit has found a lie")
			}
		})
	}
}

// without says whether no other peer has one as a member.
func (l *lab) without(owner *labPeer) bool {
	return !slices.ContainsFunc(l.others(owner), func(p *labPeer) bool {
		return slot.Find(p.m.chain.Members(), owner.id) >= 0
	})
}

// A contribution of which the leader can show nothing costs a new group, and its contributor
// nothing else, whether it hides or is gone.
func TestAContributionNobodyShows(t *testing.T) {
	for name, hide := range map[string]func(p *labPeer){
		"hidden": func(p *labPeer) { p.auditor.hides = "*" },
		"gone":   func(p *labPeer) { p.crash() },
	} {
		t.Run(name, func(t *testing.T) {
			l := auditedLab(t, "ABCD")
			for _, p := range l.peers {
				p.auditor.delay = 50 * time.Millisecond
			}
			leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
				return lead.ref.Ballot == 0 && lead.draft != nil && len(lead.draft.Record.Contributions) == 4
			})
			by, height, group := l.aside(leader, 1), leader.m.open.ref.Height, leader.m.open.lead.group
			hide(by)
			l.awaits(t, "a step is decided", func() bool {
				tip := leader.m.chain.Tip() // that the peer is gone may be recorded before
				return tip.Height >= height && tip.Kind == slot.Step
			})
			k := leader.m.chain.Commits()[leader.m.chain.Height()-1]
			if slices.Contains(offerers(k.Record.Contributions), by.id) || k.Certificate.Term() > 1 {
				t.Errorf("decided in ballot %d with %s", k.Certificate.Ballot,
					labNames(offerers(k.Record.Contributions)))
			}
			if p := leader.m.open.last; p != nil && p.Group() == group {
				t.Error("no new group was opened")
			}
			by.auditor.hides = ""
			if !by.up() {
				by.start()
				l.connect()
			}
			l.goesOn(t, 3)
			l.onlyEvicted(t)
			if name == "hidden" && l.audits.dark == 0 {
				t.Error("nobody has missed a contribution")
			}
		})
	}
}

// An elector to which nobody shows a contribution gives no HAVE, and tells all electors. Alone it
// moves nobody: the others are a quorum. What it says counts for the leader of a later term.
func TestAnElectorTellsWhatItIsNotShown(t *testing.T) {
	l := auditedLab(t, "ABCD")
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool { return lead.ref.Ballot == 0 && lead.plan != nil })
	by, elector, height := l.aside(leader, 1), l.aside(leader, 2), leader.m.open.ref.Height
	by.auditor.hides = elector.name
	other, told := l.aside(leader, 3), false
	l.awaits(t, "the height is decided", func() bool {
		for o, from := range other.m.open.hidden {
			told = told || o.Peer == by.id && len(from) == 1
		}
		return leader.m.chain.Height() >= height
	})
	if b := leader.m.chain.Commit(height).Certificate.Ballot; !told || b > 0 {
		t.Errorf("told %v, ballot %d\n%s", told, b, l.show())
	}
	m := other.m
	offers := stepRecord(m, "ABCD").Contributions
	of := func(name string) slot.Offer {
		return offers[slices.IndexFunc(offers, func(o slot.Offer) bool { return o.Peer == labID(name) })]
	}
	out := func(term uint32) string { return labNames(m.planner.hiders.out(term*slot.Tries, offers)) }
	m.open.hidden = map[slot.Offer]map[slot.PeerID]struct{}{of(by.name): {elector.id: {}}}
	if out(0) != "" || out(1) != by.name {
		t.Errorf("in term 0 %q are left out, in term 1 %q", out(0), out(1))
	}
	again := of(by.name) // it was started again
	again.Seq++
	if got := m.planner.hiders.out(slot.Tries, []slot.Offer{again}); len(got) > 0 {
		t.Errorf("its next offer is left out, too: %s", labNames(got))
	}
	// one elector names all others: one of them counts, and two that contributed stay in any case
	m.open.hidden = nil
	for _, o := range offers {
		m.audits.noteHiding(o, elector.id)
	}
	if len(m.open.hidden) != 1 {
		t.Errorf("%d names of one elector count", len(m.open.hidden))
	}
	m.open.hidden = map[slot.Offer]map[slot.PeerID]struct{}{}
	for _, o := range offers {
		m.open.hidden[o] = map[slot.PeerID]struct{}{elector.id: {}, by.id: {}}
	}
	if got := out(3); len(got) != 2 {
		t.Errorf("in term 3 %q of four are left out", got)
	}
	l.onlyEvicted(t)
}
