package membership

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// slowLab is a working run of four electors and E, a member without a vote, which offers long
// before the others.
func slowLab(t *testing.T) *lab {
	t.Helper()
	l := workingLab(t, "ABCDE")
	for _, p := range l.peers[:4] {
		p.slowness = 3 * labTiming.Retry
	}
	if m := l.peers[0].m; slot.Find(m.chain.Electorate(), labID("E")) >= 0 {
		t.Fatal("E has a vote")
	}
	l.log = nil
	return l
}

// steps lets a run do so many slots more, and returns their records.
func (l *lab) steps(t *testing.T, n uint64) (rs []slot.Record) {
	t.Helper()
	c := l.peers[0].m.chain
	from, height := c.Tip().Slot, c.Height()
	l.within(t, time.Duration(n)*10*time.Second, "the steps", func() bool {
		return l.peers[0].m.chain.Tip().Slot >= from+n
	})
	for c = l.peers[0].m.chain; height < c.Height(); height++ {
		if r := c.At(height + 1); r.Kind == slot.Step {
			rs = append(rs, r)
		}
	}
	return rs
}

func (l *lab) logged(part string) (n int) {
	for _, line := range l.log {
		n += btoi(strings.Contains(line, part))
	}
	return n
}

// An offer that one elector alone has heard gets into the plan of each leader, since that elector
// hands it over; and nobody objects. An offer that all have heard is handed over to nobody.
func TestOffersAreHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		deaf   []string // that hear no offer of E
		handed bool
	}{
		"all hear it":      {nil, false},
		"one hears it":     {[]string{"A", "B", "C"}, true},
		"the leader lacks": {[]string{"B", "C"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := slowLab(t)
			for _, d := range c.deaf {
				l.filters = append(l.filters, &labFilter{from: "E", to: d, kind: "offer", left: -1})
			}
			handed := &labFilter{kind: "notyet", hold: true, left: -1}
			if !c.handed {
				l.filters = append(l.filters, handed)
			}
			l.steps(t, 1) // the first began before the filters
			for _, r := range l.steps(t, 6) {
				if !hasOffer(r.Contributions, labID("E")) {
					t.Errorf("slot %d is without E", r.Slot)
				}
			}
			if n := l.logged("peer.objected"); n > 0 {
				t.Errorf("%d objections\n%s", n, l.show())
			}
			if len(l.held) > 0 {
				t.Errorf("%d messages hand over what the leader has", len(l.held))
			}
		})
	}
}

// A leader that does not take the offers of a member gets no HAVE for a plan without it, and the
// next leader decides the slot with it (a5).
func TestALeaderThatPassesAMemberOver(t *testing.T) {
	l := slowLab(t)
	l.filters = []*labFilter{
		{from: "E", to: "B", kind: "offer", left: -1}, {to: "B", kind: "notyet", left: -1},
	}
	l.steps(t, 1)
	led := 0
	for _, r := range l.steps(t, 8) {
		order := slot.LeaderOrder(l.rules.Run, r.Height, l.peers[0].m.chain.At(r.Height-1).Electors())
		led += btoi(order[0].Peer == labID("B"))
		if !hasOffer(r.Contributions, labID("E")) {
			t.Errorf("slot %d is without E", r.Slot)
		}
	}
	if led == 0 {
		t.Fatal("B has not led")
	}
	if l.logged("without offers that it was given in time, of "+labID("E").Short()) == 0 {
		t.Errorf("nobody objects\n%s\n%s", strings.Join(l.log, "\n"), l.show())
	}
}

// A leader that has lost the offers that it was given, or was given none, plans anew once it gets
// them from electors without which it has no quorum, and says who waits for what.
func TestALeaderPlansAnewForThoseThatWait(t *testing.T) {
	for name, drafted := range map[string]bool{"before the draft": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			l := slowLab(t)
			b := l.peer("B")
			l.filters = []*labFilter{
				{from: "E", to: "B", kind: "offer", left: -1}, {to: "B", kind: "notyet", left: -1},
			}
			without := func() bool {
				ld := b.m.open.lead
				return ld != nil && ld.plan != nil && !hasOffer(ld.plan.Offers, labID("E")) && ld.ref.Ballot == 0 &&
					(!drafted || ld.draft != nil)
			}
			l.within(t, 3*time.Minute, "it is gone", without)
			l.filters, l.log = nil, nil
			h := b.m.open.ref.Height
			l.awaits(t, "b follows", func() bool { return b.m.chain.Height() >= h })
			ballot := b.m.chain.Commits()[h-1].Certificate.Ballot
			if r := b.m.chain.At(h); !hasOffer(r.Contributions, labID("E")) || ballot != uint32(btoi(drafted)) {
				t.Errorf("ballot %d, contributions of %s\n%s", ballot, labNames(offerers(r.Contributions)),
					strings.Join(l.log, "\n"))
			}
			if l.logged("B peer.waits") == 0 {
				t.Errorf("it does not say who waits\n%s", strings.Join(l.log, "\n"))
			}
		})
	}
}

// One elector that lies, and a contributor that shows its offers to that one alone, or late, move
// no honest leader: it plans once, and each slot is decided (a14).
func TestALiarThatWaitsMovesNobody(t *testing.T) {
	l := slowLab(t)
	liar, e := l.peer("D"), l.peer("E")
	train(false, e) // it offers to the liar alone
	l.filters = []*labFilter{{from: "D", kind: "have,vote,notyet", left: -1}}
	told, late, anew := 0, 0, 0
	var lie func()
	lie = func() {
		for _, p := range l.peers[:3] {
			for rule := wire.RuleOffers; rule <= wire.RuleSegments; rule++ {
				ld := p.m.open.lead
				if ld == nil || p.m.open.ref != liar.m.open.ref {
					continue
				}
				anew += ld.waiting.replanned
				m := liar.m.handover.notYet(ld.group, rule, peersOf(liar.m.chain.Members()))
				m.Ref, m.Offers, m.Proofs = ld.ref, nil, nil
				if ld.plan != nil && rule == wire.RuleOffers {
					m.Offers = stepRecord(liar.m, "E").Contributions
					m.Proofs = l.proofs(m.Offers)
				}
				if err := p.step(labSigned(liar, m)); err != nil {
					t.Error(err)
				}
				told++
				late += btoi(ld.plan != nil && hasOffer(p.m.planner.offers(), e.id) && !hasOffer(ld.plan.Offers, e.id))
			}
		}
		l.at(l.now+5*time.Millisecond, lie)
	}
	lie()
	rs := l.steps(t, 6)
	if late == 0 {
		t.Fatalf("%d lies, none while an offer of E is too late", told)
	}
	if anew > 0 {
		t.Error("a leader plans anew")
	}
	for _, r := range rs {
		leader := slot.LeaderOrder(l.rules.Run, r.Height, l.peers[0].m.chain.At(r.Height-1).Electors())[0].Peer
		if b := l.peers[0].m.chain.Commits()[r.Height-1].Certificate.Ballot; b > 0 && leader != liar.id {
			t.Errorf("slot %d: %s does not decide it, but ballot %d", r.Slot, labName(leader), b)
		}
	}
	if n := l.logged("peer.objected"); n > 0 {
		t.Errorf("%d objections\n%s", n, strings.Join(l.log, "\n"))
	}
}
