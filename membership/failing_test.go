package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// withStrangers is an audited lab of some honest electors, and of so many members without a vote.
func withStrangers(t *testing.T, electors string, n int) (l *lab, strangers []*labPeer) {
	l = auditedLab(t, electors)
	for i := range n {
		strangers = append(strangers, l.add(string(rune('a'+i))))
	}
	l.connect()
	l.within(t, 2*time.Minute, "all strangers are members", func() bool {
		return len(l.peers[1].m.chain.Members()) >= len(electors)+n
	})
	return l, strangers
}

// countGroups runs a lab for so many slots within a time. It returns how many terms were lost
// meanwhile, and which groups each slot had. With each step it calls each for every leader that has
// a plan.
func (l *lab) countGroups(t *testing.T, slots uint64, in time.Duration, electors int, each func(by *labPeer)) (
	lost int, groups map[uint64]map[slot.Root]bool,
) {
	t.Helper()
	honest := l.peers[1].m
	height, end := honest.chain.Height(), honest.chain.Tip().Slot+slots
	groups = map[uint64]map[slot.Root]bool{}
	done := l.run(in, func() bool {
		for _, p := range l.peers[:electors] {
			lead := p.m.open.lead
			if lead == nil || lead.plan == nil {
				continue
			}
			s := lead.plan.Slot
			if groups[s] == nil {
				groups[s] = map[slot.Root]bool{}
			}
			groups[s][lead.group] = true
			if each != nil {
				each(p)
			}
		}
		return honest.chain.Tip().Slot >= end
	})
	if !done {
		t.Fatalf("%d slots are not decided in %v, ballot %d\n%s", slots, in, honest.open.ballot, l.show())
	}
	for _, c := range honest.chain.Commits()[height:] {
		lost += int(c.Certificate.Ballot / slot.Tries)
	}
	return lost, groups
}

// most is the largest number of groups of a slot.
func most(groups map[uint64]map[slot.Root]bool) (n int) {
	for _, g := range groups {
		n = max(n, len(g))
	}
	return n
}

// Members without a vote that show auditors nothing cost a slot one more reduction, however many
// they are, and nobody refuses an honest leader: those that a leader leaves out keep the newcomers'
// places in the slot.
func TestManyHidersCostOneReduction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		electors string
		hiders   int
	}{{"ABCD", 4}, {"ABCD", 12}, {"ABCDEFG", 12}} {
		t.Run(fmt.Sprint(c.electors, c.hiders), func(t *testing.T) {
			l := auditedLab(t, c.electors)
			for i := range c.hiders {
				l.add(string(rune('a' + i))).auditor.hides = "*"
			}
			l.connect()
			all := len(c.electors) + c.hiders
			l.within(t, 2*time.Minute, "all are members", func() bool {
				return len(l.peers[1].m.chain.Members()) >= all
			})
			lost, groups := l.countGroups(t, 20, time.Minute, len(c.electors), nil)
			if lost > 20 || most(groups) > 2 {
				t.Errorf("%d terms are lost, and a slot has %d groups\n%s", lost, most(groups), l.show())
			}
			for _, line := range l.log {
				if strings.Contains(line, "peer.refused") {
					t.Error(line)
				}
			}
		})
	}
}

// failsIn has a peer report itself lost once a segment has its contribution.
func failsIn(leader, p *labPeer) (failed bool) {
	lead := leader.m.open.lead
	if lead == nil || lead.plan == nil || leader == p {
		return false
	}
	i := lead.plan.Place(p.id)
	if i < 0 || lead.plan.Gone.Has(i) {
		return false
	}
	for _, s := range lead.segments {
		if s.Contributors.Has(i) {
			_ = leader.step(labSigned(p, wire.Lost{
				Ref: lead.ref, Group: lead.group, Peer: p.id, Reason: wire.LostConnection,
			}))
			return true
		}
	}
	return false
}

// However many members without a vote fail in the reduction, each once, a slot has two groups: the
// next of them does not take the place of the one before.
func TestManyThatFailCostOneGroup(t *testing.T) {
	t.Parallel()
	l, strangers := withStrangers(t, "ABCD", 12)
	_, groups := l.countGroups(t, 20, time.Minute, 4, func(leader *labPeer) {
		for _, p := range strangers {
			failsIn(leader, p)
		}
	})
	if n := most(groups); n > 3 {
		t.Errorf("a slot has %d groups", n)
	}
}

// offersAnew announces the next offer of a peer, of other bytes, to some peers.
func offersAnew(p *labPeer, o slot.Offer, to ...*labPeer) {
	o.Seq++
	o.Root[0]++
	for _, q := range to {
		_ = q.step(labSigned(p, wire.Offer{Offer: o}))
	}
}

// A member that fails and offers anew comes back once in a slot.
func TestWhoFailsComesBackOnce(t *testing.T) {
	for _, name := range []string{"a", "D"} {
		t.Run(name, func(t *testing.T) {
			l, _ := withStrangers(t, "ABCD", 1)
			l.goesOn(t, 1)
			p := l.peer(name)
			_, groups := l.countGroups(t, 3, time.Minute, 4, func(leader *labPeer) {
				lead := leader.m.open.lead
				i := lead.plan.Place(p.id)
				if i >= 0 && leader != p && len(lead.segments) > 0 && !lead.plan.Gone.Has(i) {
					offersAnew(p, lead.plan.Offers[i], leader)
					failsIn(leader, p)
				}
			})
			if n := most(groups); n > 3 || n < 2 {
				t.Errorf("a slot has %d groups", n)
			}
		})
	}
}

// A member that hides and offers anew comes back once in a slot, or twice: a leader may not have
// seen the first time yet.
func TestWhoHidesComesBackOnce(t *testing.T) {
	l, strangers := withStrangers(t, "ABCD", 1)
	p := strangers[0]
	p.auditor.hides = "*"
	drafts := map[slot.Root]bool{}
	_, groups := l.countGroups(t, 6, time.Minute, 4, func(leader *labPeer) {
		lead := leader.m.open.lead
		if i := lead.plan.Place(p.id); i >= 0 && !drafts[lead.plan.Offers[i].Root] {
			drafts[lead.plan.Offers[i].Root] = true
			offersAnew(p, lead.plan.Offers[i], l.peers[:4]...)
		}
	})
	if n := most(groups); n > 4 {
		t.Errorf("a slot has %d groups", n)
	}
}

// Strangers that fail in turns, and of whom the next always comes before those that have failed,
// use up the newcomers' places of a slot, and no more.
func TestThoseThatOfferInTurnsUseUpTheShare(t *testing.T) {
	l, strangers := withStrangers(t, "ABCD", 12)
	first := len(strangers) - 1
	train(false, strangers[:first]...)
	l.goesOn(t, 1)
	next, at, failed := first, uint64(0), 0
	_, groups := l.countGroups(t, 10, time.Minute, 4, func(leader *labPeer) {
		lead := leader.m.open.lead
		if lead.plan.Slot != at {
			next, at = first, lead.plan.Slot
		}
		for _, p := range strangers {
			if i := lead.plan.Place(p.id); i < 0 || next == 0 || len(lead.segments) == 0 {
				continue
			}
			o := lead.plan.Offers[0]
			next--
			o.Peer, o.Root[0] = strangers[next].id, byte(next)
			_ = leader.step(labSigned(strangers[next], wire.Offer{Offer: o}))
			failed += btoi(failsIn(leader, p))
			return
		}
	})
	if n := most(groups); n > 3 || failed < 5 {
		t.Errorf("%d times one fails, and a slot has %d groups", failed, n)
	}
}

// Where another one fails, the newcomers of the first group stay in the next, though one that comes
// before them has offered meanwhile: voters count so, too.
func TestNewcomersKeepTheirPlacesWhereAnotherFails(t *testing.T) {
	l, strangers := withStrangers(t, "ABCD", 6)
	first := len(strangers) - 2
	train(false, strangers[:first]...)
	l.goesOn(t, 1)
	d, failed, listed := l.peer("D"), map[uint64]bool{}, map[uint64][]slot.PeerID{}
	l.countGroups(t, 6, time.Minute, 4, func(leader *labPeer) {
		lead := leader.m.open.lead
		s := lead.plan.Slot
		var newcomers []slot.PeerID
		for _, p := range strangers {
			if lead.plan.Place(p.id) >= 0 {
				newcomers = append(newcomers, p.id)
			}
		}
		switch i := lead.plan.Place(d.id); {
		case failed[s]:
			if i < 0 && !slices.Equal(newcomers, listed[s]) {
				t.Errorf("slot %d: %v were listed, and %v are after D has failed", s, listed[s], newcomers)
			}
		case leader != d && i >= 0 && len(lead.segments) > 0 && lead.plan.Place(strangers[first].id) >= 0:
			o := lead.plan.Offers[lead.plan.Place(strangers[first].id)]
			o.Peer, o.Root[0] = strangers[0].id, 1
			_ = leader.step(labSigned(strangers[0], wire.Offer{Offer: o}))
			listed[s] = newcomers
			failed[s] = failsIn(leader, d)
		}
	})
	if len(failed) < 2 {
		t.Errorf("D has failed in %d slots", len(failed))
	}
}

// A leader that lies lists a stranger, sends it no plan, and says that it is gone, so that it seems
// to fail all owners. The others plan with it when they lead.
func TestALeaderHasNobodyLeftOutForLonger(t *testing.T) {
	l, strangers := withStrangers(t, "ABCD", 1)
	a, liar := strangers[0], l.peer("D")
	began := l.peer("A").m.chain.OpenSlot()
	lost, _ := l.countGroups(t, 40, time.Minute, 4, func(by *labPeer) { a.broken = by == liar })
	if n := len(contributed(l.peer("A"), a.id, began)); lost > 0 || n < 20 {
		t.Errorf("%d terms are lost, and it contributes to %d of 40 slots", lost, n)
	}
}

// Strangers on poor links fail in one of ten slots in which others plan with them, and a leader
// that lies has them seem to fail in all of its own. They are left out for a while, and not for
// good.
func TestALeaderKeepsNobodyOutThatFailsNowAndThen(t *testing.T) {
	t.Parallel()
	l, strangers := withStrangers(t, "ABCD", 2)
	liar, began := l.peer("D"), l.peer("A").m.chain.OpenSlot()
	tries, newest, bad := map[string]int{}, map[string]uint64{}, map[string]bool{}
	l.countGroups(t, 100, 10*time.Minute, 4, func(by *labPeer) {
		plan := by.m.open.lead.plan
		for i, p := range strangers {
			if by != liar && plan.Place(p.id) >= 0 && newest[p.name] != plan.Slot {
				newest[p.name] = plan.Slot
				tries[p.name]++
				bad[p.name] = tries[p.name]%10 == 3+i
			}
			p.broken = by == liar || bad[p.name] && newest[p.name] == plan.Slot
		}
	})
	for _, p := range strangers {
		if n := len(contributed(l.peer("A"), p.id, began)); n < 30 {
			t.Errorf("%s contributes to %d of 100 slots", p.name, n)
		}
	}
}
