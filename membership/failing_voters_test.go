package membership

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// waysToFail are how electors fail where others lead: they give owners nothing, say that they are
// lost once a segment has their contribution, or own what they never reduce.
var waysToFail = map[string]func(leader, p *labPeer){
	"gives nothing":   func(leader, p *labPeer) { p.broken = leader != p },
	"says it is lost": func(leader, p *labPeer) { failsIn(leader, p) },
	"reduces nothing": func(leader, p *labPeer) { p.stuck = leader != p },
	"each way in turn": func(leader, p *labPeer) {
		way := leader.m.open.lead.plan.Slot % 3
		p.broken, p.stuck = leader != p && way == 0, leader != p && way == 1
		if way == 2 {
			failsIn(leader, p)
		}
	},
	"in two of three slots": func(leader, p *labPeer) {
		p.broken = leader != p && leader.m.open.lead.plan.Slot%3 > 0
	},
}

// listedInVain runs a lab for so many slots with electors that fail in a way. It returns in how
// many slots another leader listed one of them, and the record does not have it.
func (l *lab) listedInVain(t *testing.T, slots uint64, fails func(leader, p *labPeer), bad []*labPeer, electors int,
) (n int) {
	t.Helper()
	a := l.peers[0]
	listed, began, at := map[string]map[uint64]bool{}, a.m.chain.OpenSlot(), l.now
	lost, groups := l.countGroups(t, slots, 20*time.Minute, electors, func(leader *labPeer) {
		for _, p := range bad {
			fails(leader, p)
			if plan := leader.m.open.lead.plan; p != leader && plan.Place(p.id) >= 0 {
				if listed[p.name] == nil {
					listed[p.name] = map[uint64]bool{}
				}
				listed[p.name][plan.Slot] = true
			}
		}
	})
	if lost > 0 {
		t.Errorf("%d terms are lost\n%s", lost, l.show())
	}
	all := map[uint64]bool{}
	for _, p := range bad {
		p.broken, p.stuck = false, false
		for _, s := range contributed(a, p.id, began) {
			delete(listed[p.name], s)
		}
		for s := range listed[p.name] {
			all[s] = true
		}
	}
	reductions := 0
	for _, g := range groups {
		reductions += len(g)
	}
	t.Logf("%v and %.2f groups a slot, %d of %d slots list one in vain", (l.now-at)/time.Duration(slots),
		float64(reductions)/float64(len(groups)), len(all), slots)
	return len(all)
}

// Electors that fail where others lead cost ever fewer slots another reduction. They keep their
// votes, and count again once they do not fail any more.
func TestElectorsThatFailAreLeftOutForLonger(t *testing.T) {
	t.Parallel()
	for _, electors := range []string{"ABCD", "ABCDEFG"} {
		if len(electors) > 4 && !testlevel.Nightly() {
			continue // they take ten seconds of a core
		}
		for name, fails := range waysToFail {
			t.Run(electors+" "+name, func(t *testing.T) {
				l, n := auditedLab(t, electors), len(electors)
				bad := l.peers[n-(n-1)/3:]
				l.listedInVain(t, 40, fails, bad, n)
				most := 6 * len(bad)
				if strings.HasPrefix(name, "in two") { // it is forgiven sooner
					most = 10 * len(bad)
				}
				if got := l.listedInVain(t, 40, fails, bad, n); got > most {
					t.Errorf("in %d of 40 slots another leader lists one in vain", got)
				}
				if got := len(l.peers[0].m.chain.Electorate()); got != n {
					t.Errorf("%d electors are left of %d", got, n)
				}
				began := l.peers[0].m.chain.OpenSlot()
				l.countGroups(t, 40, time.Minute, n, nil)
				for _, p := range l.peers {
					if got := len(contributed(l.peers[0], p.id, began)); got < 20 {
						t.Errorf("%s counts in %d of 40 slots", p.name, got)
					}
				}
				l.onlyEvicted(t)
			})
		}
	}
}

// Honest electors on poor links fail in one of five slots, and leaders that lie say in all of their
// own that they are gone. All slots of the other leaders in which they do not fail have them.
func TestLeadersHaveNoElectorLeftOutThatFailsNowAndThen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		electors, liars string
		oneOf           int
	}{{"ABCD", "D", 5}, {"ABCDEFG", "FG", 5}, {"ABCD", "", 4}} {
		t.Run(c.electors+" "+c.liars, func(t *testing.T) {
			l := auditedLab(t, c.electors)
			random := rand.New(rand.NewPCG(1, uint64(len(c.electors))))
			a, newest := l.peers[0], uint64(0)
			fails, fine := map[string]bool{}, map[string]int{}
			began := a.m.chain.OpenSlot()
			poor := []*labPeer{l.peer("B"), l.peer("C")}
			l.countGroups(t, 100, 20*time.Minute, len(c.electors), func(leader *labPeer) {
				lies, s := strings.Contains(c.liars, leader.name), leader.m.open.lead.plan.Slot
				for _, p := range poor {
					if s != newest {
						fails[p.name] = leader != p && (lies || random.IntN(c.oneOf) == 0)
						fine[p.name] += btoi(!fails[p.name])
					}
					p.broken = fails[p.name]
				}
				newest = s
			})
			for _, p := range poor {
				got := len(contributed(a, p.id, began))
				t.Logf("%s counts in %d of 100 slots, and did not fail in %d", p.name, got, fine[p.name])
				if got < fine[p.name]-4 {
					t.Errorf("%s counts in %d slots of the %d in which it did not fail", p.name, got, fine[p.name])
				}
			}
		})
	}
}

// Whether an elector fails is judged without the leaders under whom it fails most.
func TestWhoFailsMost(t *testing.T) {
	l := auditedLab(t, "ABCD")
	hs := l.peer("A").m.planner.hiders
	for _, c := range []struct {
		listings string // who led; lower case: it failed
		want     bool
	}{
		{"", false},
		{"aaaaaaaaa", false}, // a lie, or the leader's link
		{"ddd", false},
		{"dda", false}, // it failed once under another leader
		{"dab", true},
		{"abcabc", true},
		{"dABdABdAbdABd", false},
		{"dABdABdabdABd", false}, // twice of eight times under others
		{"dabdABdabdABd", true},
		{"aBcABCaBcA", false},
		{"aBcaBca", true},
	} {
		var all []listing
		for _, r := range c.listings {
			leader := strings.ToUpper(string(r))
			all = append(all, listing{labID(leader), leader != string(r)})
		}
		if got := hs.failsMost(all); got != c.want {
			t.Errorf("%q: %v", c.listings, got)
		}
	}
}

// While honest leaders leave an elector out that has failed them, one that lies lists it in vain in
// each slot. That has it left out no longer.
func TestALeaderAloneRenewsNothing(t *testing.T) {
	l := auditedLab(t, "ABCD")
	hs := l.peer("A").m.planner.hiders
	d := labID("D")
	for i, leader := range "BCBCAAAAAAAAAAAAAAAAAAAA" {
		listed := map[slot.PeerID]struct{}{d: {}}
		hs.decided(slot.Record{Kind: slot.Step, Slot: uint64(i)}, labID(string(leader)), listed)
	}
	out := hs.uncounted[ofMember(hs.chain.Members()[slot.Find(hs.chain.Members(), d)])]
	if out.times == 0 || out.times > 3 { // until it is the one under whom D has failed most
		t.Errorf("D is left out for the %dth time", out.times)
	}
}

// A leader that lies opens a group, of which it does not tell one of those in it, and leaves it to
// the next leader. That one is not taken for another under whom the elector fails.
func TestWhoFailsInAGroupOfTheLeaderBefore(t *testing.T) {
	for _, own := range []bool{true, false} {
		l := auditedLab(t, "ABCD")
		a, d := l.peer("A").m, l.peer("D")
		ho, at := a.handover, a.open.at(a.open.ballot)
		plan := slot.Plan{Ref: at, Opened: slot.Opening{Ref: at}, Offers: []slot.Offer{{Peer: d.id}}}
		if !own {
			plan.Opened.Ref.Ballot += slot.Tries
		}
		ho.saw(plan)
		v, before := slot.Vote{Ref: at, Hash: slot.Root{1}}, len(ho.hiders.listings[memberKey{d.id, d.inc}])
		for _, c := range []struct {
			draft wire.Draft
			want  int
		}{
			{wire.Draft{Vote: slot.Vote{Ref: at}}, 0}, // another record
			// carried along
			{wire.Draft{Vote: v, Drafted: wire.Drafted{Grounds: wire.Grounds{QC: &wire.QC{}}}}, 0},
			{wire.Draft{Vote: v}, btoi(own)},
		} {
			a.open.draft = &c.draft
			ho.decided(v, slot.Record{Kind: slot.Step, Slot: a.chain.OpenSlot()}, labID("B"))
			if got := len(ho.hiders.listings[memberKey{d.id, d.inc}]) - before; got != c.want {
				t.Errorf("opened by the leader itself: %v: %d listings, want %d", own, got, c.want)
			}
		}
	}
}

// Nor is it one under whom a member without a vote fails.
func TestAStrangerThatFailsInAGroupOfTheLeaderBefore(t *testing.T) {
	for _, own := range []bool{true, false} {
		l, strangers := withStrangers(t, "ABCD", 1)
		l.goesOn(t, 1)
		m, by := l.peer("A").m, memberKey{strangers[0].id, strangers[0].inc}
		at := m.open.at(m.open.ballot)
		plan := slot.Plan{Ref: at, Opened: slot.Opening{Ref: at}, Offers: []slot.Offer{{Peer: by.peer}}}
		if !own {
			plan.Opened.Ref.Prev = slot.Root{1}
		}
		m.open.last, m.open.groupReports = &plan, groupReports{group: plan.Group()}
		m.participant.accuse(ReportLost{Group: plan.Group(), Peer: by.peer, Reason: wire.LostConnection})
		if got := len(m.planner.hiders.under[by].leaders); got != btoi(own) {
			t.Errorf("opened by the leader itself: %v: it has failed under %d leaders", own, got)
		}
	}
}
