package membership

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// signedBy is the decision that members of the chain make, each with an order from the tip.
func signedBy(m *Machine, action slot.Action, about string, names string) slot.Decision {
	d := slot.Decision{Action: action}
	if about != "" {
		d.Peer = labID(about)
	}
	d.Turn = m.Access(d.Peer).Turn
	for _, n := range names {
		by := m.chain.Electorate()[slot.Find(m.chain.Electorate(), labID(string(n)))]
		from := m.chain.Height()
		sig := labSign(by.Peer, slot.SignedBytes(slot.TypeMotion, m.chain.Rules().Run, by.Peer, by.Incarnation,
			d.Motion(from).Append(nil)))
		d.Motions = append(d.Motions, slot.SignedMotion{Peer: by.Peer, From: from, Sig: sig})
	}
	return d
}

// accessRecord makes a record after the tip, with decisions and the old members that stay.
func accessRecord(m *Machine, key slot.Root, ds ...slot.Decision) slot.Record {
	c := m.chain
	r := slot.Record{
		Run: c.Rules().Run, Height: c.Height() + 1, Kind: slot.Access, Prev: c.TipHash(), Slot: c.Tip().Slot,
		StateRoot: m.model.state.root, Work: c.Tip().Work,
		Key: key, Decisions: ds,
	}
	for _, e := range c.Electorate() {
		if !c.Access().BarredBy(r, e.Peer) {
			r.Members = append(r.Members, e)
		}
	}
	return r
}

func TestCheckAccessRecord(t *testing.T) {
	m := labOf(t, "ABCD").peer("A").m
	changeRules(m, func(r *chain.Rules) { r.Private = true })
	key := slot.Hash([]byte("next"))
	sound := func() slot.Record { return accessRecord(m, key, signedBy(m, slot.Remove, "D", "ABC")) }
	if err := m.motions.checkRecord(sound(), 0); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*slot.Record){
		"no decisions":            func(r *slot.Record) { r.Decisions = nil },
		"of another kind":         func(r *slot.Record) { r.Kind = slot.Members },
		"the removed is a member": func(r *slot.Record) { r.Members = m.chain.Electorate() },
		"two of four without senior": func(r *slot.Record) {
			r.Decisions = []slot.Decision{signedBy(m, slot.Remove,
				"D", "BC")}
		},
		"more orders than it takes": func(r *slot.Record) {
			r.Decisions = []slot.Decision{signedBy(m, slot.Remove,
				"D", "ABCD")}
		},
		"signed twice by one": func(r *slot.Record) {
			o := &r.Decisions[0].Motions
			*o = []slot.SignedMotion{(*o)[1], (*o)[1], (*o)[2]}
		},
		"by a stranger":  func(r *slot.Record) { r.Decisions[0].Motions[2].Peer = labID("E") },
		"a forged order": func(r *slot.Record) { r.Decisions[0].Motions[1].Sig = []byte("B agrees") },
		"orders about somebody else": func(r *slot.Record) {
			r.Decisions[0].Peer = labID("E")
			r.Members = m.chain.Electorate()
		},
		"an order for another turn":   func(r *slot.Record) { r.Decisions[0].Turn = 1 },
		"an order of tomorrow":        func(r *slot.Record) { r.Decisions[0].Motions[0].From = r.Height },
		"readmits who is not removed": func(r *slot.Record) { r.Decisions[0] = signedBy(m, slot.Readmit, "D", "ABC") },
		"no new secret":               func(r *slot.Record) { r.Key = slot.Root{} },
		"decisions unsorted": func(r *slot.Record) {
			r.Decisions = []slot.Decision{signedBy(m, slot.Rotate, "", "ABC"), signedBy(m, slot.Remove, "D", "ABC")}
		},
		"with an outcome": func(r *slot.Record) { r.Segments = stepRecord(m, "AB").Segments },
		"another slot":    func(r *slot.Record) { r.Slot++ },
	} {
		r := sound()
		r.Members, r.Decisions[0].Motions = slices.Clone(r.Members), slices.Clone(r.Decisions[0].Motions)
		spoil(&r)
		if err := m.motions.checkRecord(r, 0); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	changeRules(m, func(r *chain.Rules) { r.Private = false })
	for name, r := range map[string]slot.Record{
		"a secret for an open run": sound(),
		"a rotation of no secret":  accessRecord(m, slot.Root{}, signedBy(m, slot.Rotate, "", "ABC")),
	} {
		if err := m.motions.checkRecord(r, 0); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No later record of any kind may list a removed peer. The same motions remove no peer twice, and
// no secret comes back.
func TestAfterRemoval(t *testing.T) {
	m := labOf(t, "ABCD").peer("A").m
	changeRules(m, func(r *chain.Rules) { r.Private = true })
	key := slot.Hash([]byte("next"))
	before := m.chain.Electorate()
	removal := accessRecord(m, key, signedBy(m, slot.Remove, "D", "ABC"))
	contribution := stepRecord(m, "ABD")
	m.chain.Push(wire.Commit{Record: removal})

	step := stepRecord(m, "AB")
	step.Members = before
	if err := m.chain.Check(step, 0); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("a step that lists it: %v", err)
	}
	contribution.Height, contribution.Prev, contribution.Members = m.chain.Height()+1, m.chain.TipHash(),
		m.chain.Electorate()
	if err := m.chain.Check(contribution, 0); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("a step with what it gave before: %v", err)
	}
	if err := m.chain.Check(stepRecord(m, "AB"), 0); err != nil {
		t.Errorf("a step without it: %v", err)
	}
	back := accessRecord(m, slot.Root{}, signedBy(m, slot.Readmit, "D", "AB"))
	if err := m.motions.checkRecord(back, 0); err != nil {
		t.Errorf("readmitted: %v", err)
	}
	replayed := back
	replayed.Decisions = []slot.Decision{{
		Action: slot.Readmit, Peer: labID("D"), Turn: 0,
		Motions: back.Decisions[0].Motions,
	}}
	if err := m.motions.checkRecord(replayed, 0); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("by orders of another turn: %v", err)
	}
	m.chain.Push(wire.Commit{Record: back})
	again := removal
	again.Height, again.Prev, again.Members, again.Key = m.chain.Height()+1, m.chain.TipHash(), m.chain.Electorate(),
		slot.Hash([]byte("third"))
	if err := m.motions.checkRecord(again, 0); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("removed again by the same orders: %v", err)
	}
	if err := m.motions.checkRecord(accessRecord(m, key, signedBy(m, slot.Rotate, "", "AB")), 0); !errors.Is(err,
		chain.ErrInvalid) {
		t.Errorf("a secret of before: %v", err)
	}
	if err := m.motions.checkRecord(accessRecord(m, slot.Hash([]byte("third")),
		signedBy(m, slot.Rotate, "", "AB")), 0); err != nil {
		t.Errorf("a rotation: %v", err)
	}
	if s := m.Access(labID("D")); !s.Ever || s.Removed || s.Turn != 2 {
		t.Errorf("standing after both: %+v", s)
	}
}

// Orders are of members, now, and few.
func TestOrdersAreBounded(t *testing.T) {
	l := labOf(t, "ABC")
	a, b := l.peer("A"), l.peer("B")
	say := func(from *labPeer, o slot.Motion) error {
		return a.m.Step(l.now, wire.Message{From: from.id, Incarnation: from.inc, Body: wire.Motion{Motion: o}})
	}
	h := a.m.chain.Height()
	for i := range slot.MaxDecisions {
		if err := say(b, slot.Motion{Action: slot.Remove, Peer: labID(fmt.Sprint(i)), From: h}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		from *labPeer
		o    slot.Motion
		want error
	}{
		"one too many": {b, slot.Motion{Action: slot.Remove, Peer: labID("x"), From: h}, chain.ErrInvalid},
		"about the far future": {
			a,
			slot.Motion{Action: slot.Remove, Peer: labID("x"), From: h + slot.MotionSpan + 1},
			chain.ErrInvalid,
		},
		"a secret for all":      {a, slot.Motion{Action: slot.Rotate, From: h}, chain.ErrInvalid},
		"for another turn":      {a, slot.Motion{Action: slot.Remove, Peer: labID("x"), Turn: 1, From: h}, ErrStale},
		"older than the newest": {b, slot.Motion{Action: slot.Remove, Peer: labID("1"), From: h - 1}, ErrStale},
		"of a stranger": {
			&labPeer{id: labID("Z"), inc: 1},
			slot.Motion{Action: slot.Remove, Peer: labID("x"), From: h},
			ErrSender,
		},
	} {
		if err := say(c.from, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o := a.m.View().Motions; len(o) != slot.MaxDecisions || o[0].Enough {
		t.Errorf("%d orders are known", len(o))
	}
}

// An order that stands is signed anew before it gets too old; one that is too old is no order any
// more.
func TestOldOrders(t *testing.T) {
	l := labOf(t, "ABC")
	a := l.peer("A")
	a.report(ReportMotions{[]slot.Motion{{Action: slot.Remove, Peer: labID("C")}}})
	first := a.m.motions.sent[labID("C")]
	grow := func(n int) {
		for range n {
			a.m.chain.Push(wire.Commit{Record: accessRecord(a.m, slot.Root{})})
		}
		a.m.openNext()
		a.m.Ready()
	}
	grow(slot.MotionSpan / 2)
	a.m.motions.sendAll()
	a.flush()
	if second := a.m.motions.sent[labID("C")]; second.From != a.m.chain.Height() || first.From == second.From {
		t.Errorf("signed at %d, and at %d again", first.From, second.From)
	}
	grow(slot.MotionSpan / 2)
	if len(a.m.View().Motions) != 1 {
		t.Error("an order that counts is forgotten")
	}
	grow(slot.MotionSpan)
	if len(a.m.View().Motions) != 0 {
		t.Error("an order that counts no more is held")
	}
}

// A leader cannot choose the secret that keeps it out, nor condemn anybody by a draft with orders
// that nobody gave.
func TestDraftsOfBadLeaders(t *testing.T) {
	l := labOf(t, "ABC")
	leader := labName(l.peer("A").m.open.leader(0).Peer)
	others := []string{"A", "B", "C"}
	others = slices.DeleteFunc(others, func(n string) bool { return n == leader })
	m, from := l.peer(others[0]).m, l.peer(leader)
	changeRules(m, func(r *chain.Rules) { r.Private = true })
	draft := func(d slot.Decision) error {
		next, members := m.chain.Next(), slices.DeleteFunc(slices.Clone(m.chain.Electorate()),
			func(e slot.Member) bool { return e.Peer == d.Peer })
		m.pledges.open.Have = nil // as if each were the first of its ballot
		return m.Step(l.now, labSigned(from, draftOf(next.Ballot, slot.Record{
			Run: m.cfg.Rules.Run, Height: next.Height, Kind: slot.Access, Prev: next.Prev, Slot: m.chain.Tip().Slot,
			StateRoot: m.model.state.root, Members: members, Work: m.chain.Tip().Work,
			Key: slot.Hash([]byte("k")), Decisions: []slot.Decision{d},
		}, nil)))
	}
	if err := draft(signedBy(m, slot.Remove, leader, others[0]+others[1])); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("a draft that removes its leader: %v", err)
	}
	forged := signedBy(m, slot.Remove, others[1], "AB")
	forged.Motions[0].Sig, forged.Motions[1].Sig = []byte("x"), []byte("y")
	if err := draft(forged); !errors.Is(err, chain.ErrInvalid) || m.motions.barred(labID(others[1])) {
		t.Errorf("a draft with orders that nobody gave: %v", err)
	}
	if err := draft(signedBy(m, slot.Remove, others[1], "AB")); err != nil || !m.motions.barred(labID(others[1])) {
		t.Errorf("a sound draft: %v", err)
	}
}

// A peer that is to be removed cannot prevent that by outbidding each leader, because no peer
// follows it any more.
func TestTheRemovedOutbidsNobody(t *testing.T) {
	rules := labRules()
	rules.StartPeers = 5
	l := connectedLab(t, rules, labTiming, "ABCDE")
	l.within(t, 20*time.Second, "slot 2", func() bool { return l.peer("A").m.View().AppliedSlot >= 2 })
	e := l.peer("E")
	var outbid func()
	outbid = func() {
		if d := e.m.open; e.m.elector() {
			b := (d.term() + 1) * slot.Tries
			for ofMember(d.leader(b)) != e.m.self {
				b += slot.Tries
			}
			to := peersOf(e.m.chain.Electorate())
			e.send(wire.Envelope{To: to, Body: wire.Promise{Ref: d.position(b)}})
			e.send(wire.Envelope{To: to, Body: wire.Beat{Ref: d.position(b), Revision: 1, Offers: 1}})
		}
		l.at(l.now+15*time.Millisecond, outbid)
	}
	for _, n := range "ABCD" {
		l.peer(string(n)).report(ReportMotions{Motions: []slot.Motion{{Action: slot.Remove, Peer: e.id}}})
	}
	outbid()
	l.within(t, 20*time.Second, "it is removed", func() bool { return l.peer("A").m.Access(e.id).Removed })
}

// Newcomers wait for the record of a removal: with them in an earlier record, the members that want
// the removal might be no quorum any more.
func TestNewcomersWaitForARemoval(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	newcomer := wire.Message{From: labID("N"), Incarnation: 1, Body: wire.Join{}}
	_ = m.Step(m.now, newcomer)
	ready := func(*contact) bool { return true }
	if next := m.roster.nextMembers(slot.Record{}, ready); labNames(peersOf(next)) != "ABCN" {
		t.Fatalf("the newcomer is not listed: %s", labNames(peersOf(next)))
	}
	m.motions.adoptSigned([]slot.Decision{signedBy(m, slot.Remove, "C", "AB")})
	if next := m.roster.nextMembers(slot.Record{}, ready); labNames(peersOf(next)) != "AB" {
		t.Errorf("next are %s", labNames(peersOf(next)))
	}
}

// Where members may lie, an elector has no say in its own removal: a quorum of the other electors
// decides. Fewer than four electors, and runs that withstand crashes only, count all.
func TestOrdersAgainstAnElector(t *testing.T) {
	four, seven := forkingLab(t, 4, time.Hour).peers[0].m, forkingLab(t, 7, time.Hour).peers[0].m
	crash := labOf(t, "ABCD").peers[0].m
	three := labOf(t, "ABC").peers[0].m
	changeRules(three, func(r *chain.Rules) { r.Byzantine = true })
	for _, c := range []struct {
		m      *Machine
		remove string
		by     string
		valid  bool
	}{
		{four, "D", "BC", true},
		{four, "A", "CD", true},
		{four, "D", "A", false},
		{four, "D", "ACD", false}, // the order of the accused does not count
		{four, "D", "ABC", false}, // more than it takes
		{seven, "G", "BCDEF", true},
		{seven, "G", "ABCD", false},
		{seven, "G", "BCDEG", false},
		{seven, "Z", "BCDEF", true}, // a peer without a seat: a quorum of all
		{seven, "Z", "BCDE", false},
		{crash, "D", "BC", false},
		{crash, "D", "BCD", true},
		{three, "A", "B", false},
		{three, "A", "BC", true},
	} {
		r := slot.Record{
			Kind: slot.Access, Height: c.m.chain.Height() + 1,
			Decisions: []slot.Decision{signedBy(c.m, slot.Remove, c.remove, c.by)},
		}
		if err := c.m.chain.CheckAccess(r); (err == nil) != c.valid {
			t.Errorf("%s removed by %s of %d: %v", c.remove, c.by, len(c.m.chain.Electorate()), err)
		}
	}
}

// Two of four electors order a third one out; its own order is no help, and not in the way.
func TestTwoOfFourRemoveAnElector(t *testing.T) {
	l := forkingLab(t, 4, time.Hour)
	a, b, c := l.peers[0], l.peers[1], l.peers[2] // a comes first where orders are sorted
	remove := ReportMotions{[]slot.Motion{{Action: slot.Remove, Peer: a.id}}}
	a.report(remove)
	b.report(remove)
	l.rests(10 * time.Second)
	if b.m.Access(a.id).Removed {
		t.Fatal("it is removed by one order and its own")
	}
	c.report(remove)
	l.within(t, 20*time.Second, "it is removed", func() bool { return b.m.Access(a.id).Removed })
}
