package membership

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// ringLab is a run with rings that has the plan of one, of all, which does not end.
func ringLab(t *testing.T, names string) (l *lab, leader *labPeer) {
	t.Helper()
	return plannedLab(t, names, true)
}

func plannedLab(t *testing.T, names string, ring bool) (l *lab, leader *labPeer) {
	t.Helper()
	rules := labRules()
	rules.Rings, rules.StartPeers = ring, len(names)
	l = newLab(t, rules, labTiming)
	for _, n := range names {
		l.add(string(n)).stuck = true
	}
	l.connect()
	planned := func() bool {
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool {
			plan := p.m.open.plan
			if p.m.open.lead != nil && p.m.open.lead.plan != nil {
				leader = p
			}
			return plan == nil || len(plan.Offers) != len(names) || (len(plan.Ring) > 0) != ring
		})
	}
	if !l.run(time.Minute, planned) || leader == nil {
		t.Fatalf("no plan of %s\n%s", names, l.show())
	}
	return l, leader
}

// ringWord is what a peer says of another in the round of a plan.
func ringWord(by *labPeer, plan slot.Plan, of slot.PeerID, reason wire.LostReason) wire.Message {
	return labSigned(by, wire.Lost{Ref: plan.Ref, Group: plan.Group(), Peer: of, Reason: reason, Round: plan.Round()})
}

// aside is a member that does not lead, at a seat after the leader's.
func (l *lab) aside(leader *labPeer, seats int) *labPeer {
	return l.peers[(slices.Index(l.peers, leader)+seats)%len(l.peers)]
}

// The reports of one member about a ring, however many, cost one of the two peers that they are
// about, and then the ring. The slot closes with all peers but the sender.
func TestALiarInARingCostsOne(t *testing.T) {
	for name, c := range map[string]struct {
		reason wire.LostReason
		most   int // how many peers it names at once
	}{
		"one after the other": {wire.LostConnection, 1},
		"bad bytes":           {wire.LostBadBytes, 1},
		"all at once":         {wire.LostConnection, 6},
		"missing outcomes":    {wire.LostOutcome, 6},
	} {
		t.Run(name, func(t *testing.T) {
			l, leader := ringLab(t, "ABCDEF")
			liar := l.aside(leader, 2)
			lie := func() {
				lead, named := leader.m.open.lead, 0
				for _, p := range l.peers {
					if lead == nil || lead.plan == nil || p == liar || named == c.most ||
						lead.plan.Gone.Has(lead.plan.Place(p.id)) {
						continue
					}
					if leader.step(ringWord(liar, *lead.plan, p.id, c.reason)) == nil {
						named++
					}
				}
			}
			for range 16 {
				lie()
				l.rests(labTiming.Beat)
				if lead := leader.m.open.lead; lead != nil && lead.plan != nil && lead.plan.Living() < 5 {
					t.Fatalf("%d of 6 are left in the plan", lead.plan.Living())
				}
			}
			for _, p := range l.peers {
				p.stuck = false
				if plan := p.m.open.plan; plan != nil {
					p.reduce(WorkReduce{Plan: *plan, Share: p.m.chain.Share(plan.Offers)})
				}
			}
			l.awaits(t, "the slot closes", func() bool { return leader.m.View().AppliedSlot > 0 })
			for h := uint64(1); h <= leader.m.chain.Height(); h++ {
				r := leader.m.chain.At(h)
				honest := len(r.Contributions)
				if slices.ContainsFunc(r.Contributions, func(o slot.Offer) bool { return o.Peer == liar.id }) {
					honest--
				}
				if r.Slot == 1 && r.Kind == slot.Step && honest < 5 {
					t.Errorf("%d of 5 honest members contribute", honest)
				}
			}
		})
	}
}

// What is said about a circle that is over opens no further revision: one loss is reported by
// several, some of them late.
func TestLateWordsOfARingAreStale(t *testing.T) {
	l, leader := ringLab(t, "ABCDEF")
	first := *leader.m.open.lead.plan
	out, two := l.aside(leader, 1), l.aside(leader, 3)
	if err := leader.step(ringWord(leader, first, out.id, wire.LostConnection)); err != nil {
		t.Fatal(err)
	}
	plan := *leader.m.open.lead.plan
	if plan.Living() != 5 || !plan.Gone.Has(plan.Place(out.id)) {
		t.Fatalf("the leader's own word leaves %d in the plan", plan.Living())
	}
	if err := leader.step(ringWord(two, first, l.aside(two, 1).id, wire.LostConnection)); !errors.Is(err, ErrStale) {
		t.Errorf("a late word: %v", err)
	}
	l.rests(4 * labTiming.Beat)
	if now := leader.m.open.lead.plan; now == nil || now.Living() != 5 || len(now.Ring) == 0 {
		t.Errorf("a late word revised the plan")
	}
}

// A peer of a ring cannot know what becomes of peers that are no neighbours.
func TestOnlyNeighboursAreNamedInARing(t *testing.T) {
	l, leader := ringLab(t, "ABCDEF")
	if err := leader.step(ringWord(l.aside(leader, 1), *leader.m.open.lead.plan, l.aside(leader, 3).id,
		wire.LostConnection)); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("a word about no neighbour: %v", err)
	}
}

// If the peer that was left out is dead, its report, or that about it, is no lie: the ring goes on,
// even if others die.
func TestDeathsDoNotEndARing(t *testing.T) {
	l, leader := ringLab(t, "ABCDEFGH")
	for _, seats := range []int{1, 4} {
		victim, neighbour := l.aside(leader, seats), l.aside(leader, seats+1)
		victim.crash()
		l.connect()
		neighbour.report(ReportLost{
			Group: leader.m.open.lead.group, Peer: victim.id, Reason: wire.LostConnection,
			Round: leader.m.open.lead.plan.Round(),
		})
		_ = leader.step(ringWord(neighbour, *leader.m.open.lead.plan, victim.id, wire.LostConnection))
		l.rests(labTiming.Patience)
	}
	if plan := leader.m.open.lead.plan; plan == nil || len(plan.Ring) == 0 || plan.Living() != 6 {
		t.Errorf("the plan is %+v", plan)
	}
}

// A peer that announces itself and passes nothing on ends the ring, not the slot. No leader plans
// rings for a while then.
func TestAMuteMemberEndsTheRing(t *testing.T) {
	l, leader := ringLab(t, "ABCD")
	l.aside(leader, 1).mute = true
	for _, p := range l.peers {
		p.stuck = false
	}
	s := leader.m.chain.OpenSlot()
	began := l.now
	l.awaits(t, "the slot closes", func() bool { return leader.m.View().AppliedSlot >= s })
	if took := l.now - began; took > 10*labTiming.Patience {
		t.Errorf("it took %v", took)
	}
	l.awaits(t, "slots close", func() bool { return leader.m.View().AppliedSlot >= s+ringRest })
	if took := l.now - began; took > 30*labTiming.Patience {
		t.Errorf("slots took %v in all", took)
	}
	rings := func(p *labPeer) bool { return p.m.open.last != nil && len(p.m.open.last.Ring) > 0 }
	l.awaits(t, "a ring is tried again", func() bool { return slices.ContainsFunc(l.peers, rings) })
}

// A ring through which bytes drip ends, too: it may take 40 times what is usual.
func TestADrippingRingEnds(t *testing.T) {
	l, leader := ringLab(t, "ABCD")
	for _, p := range l.peers {
		p.trickle, p.m.history.usual = 1, 100*time.Millisecond
	}
	began := l.now
	end := func() bool { plan := l.peers[0].m.open.last; return plan != nil && len(plan.Ring) == 0 }
	l.within(t, 5*time.Minute, "the ring ends", end)
	if took, least := l.now-began, silentTimeouts*labTiming.Patience; took < least ||
		took > least+slowOwnerFactor*100*time.Millisecond+2*labTiming.Beat {
		t.Errorf("it ends after %v", took)
	}
	leader.m.history.usual = 0
	leader.m.history.noteUsual(time.Second)
	leader.m.history.noteUsual(time.Hour)
	if leader.m.history.usual != 9*time.Second/8 {
		t.Errorf("after one slow slot %v are usual", leader.m.history.usual)
	}
}

// The peer with the most reports against it goes.
func TestWhoLeavesARing(t *testing.T) {
	l, leader := ringLab(t, "ABCDEF")
	a, b, c, d, e := l.aside(leader, 1).id, l.aside(leader, 2).id, l.aside(leader, 3).id, l.aside(leader, 4).id,
		l.aside(leader, 5).id
	for name, x := range map[string]struct {
		words []report
		want  slot.PeerID
	}{
		"the one that is named":             {[]report{{by: a, of: b}}, b},
		"not the leader":                    {[]report{{by: a, of: leader.id}}, a},
		"one that names both neighbours":    {[]report{{by: b, of: a}, {by: b, of: c}}, b},
		"one that both neighbours name":     {[]report{{by: a, of: b}, {by: c, of: d}, {by: e, of: d}}, d},
		"one that says more, not one named": {[]report{{by: a, of: b}, {by: c, of: b}, {by: c, of: d}}, c},
	} {
		if got := leader.m.planner.unfit(x.words); got != x.want {
			t.Errorf("%s: %s leaves, want %s", name, labName(got), labName(x.want))
		}
	}
}
