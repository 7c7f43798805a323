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

// labSigned is a message as its author would sign it.
func labSigned(p *labPeer, b wire.Body) wire.Message {
	sig := labSign(p.id, slot.SignedBytes(b.Type(), p.lab.rules.Run, p.id, p.inc, b.Append(nil)))
	return wire.Message{From: p.id, Incarnation: p.inc, Body: b, Sig: sig}
}

// Two votes in one ballot, two offers with one sequence number, two signatures on forks in one
// attempt, two roots of equal inputs: a peer that sees both evicts the member at once, everywhere,
// and does not take it back in that incarnation.
func TestAContradictionEvicts(t *testing.T) {
	for name, make2 := range map[string]func(next slot.Ref) [2]wire.Body{
		"votes": func(next slot.Ref) [2]wire.Body {
			return [2]wire.Body{
				wire.Vote{Vote: slot.Vote{Ref: next, Hash: slot.Root{1}}},
				wire.Vote{Vote: slot.Vote{Ref: next, Hash: slot.Root{2}}},
			}
		},
		"offers": func(next slot.Ref) [2]wire.Body {
			o := slot.Offer{Peer: labID("D"), Slot: 100, Seq: 1 << 40, Base: 99, Weight: 1}
			again := o
			again.Weight = 2
			return [2]wire.Body{wire.Offer{Offer: o}, wire.Offer{Offer: again}}
		},
		"forks": func(next slot.Ref) [2]wire.Body {
			return [2]wire.Body{
				wire.ForkVote{Vote: slot.Vote{Ref: next, Hash: slot.Root{1}}},
				wire.ForkVote{Vote: slot.Vote{Ref: next, Hash: slot.Root{2}}},
			}
		},
		"segments": func(next slot.Ref) [2]wire.Body {
			s := wire.Segment{
				Ref: next, Inputs: slot.Root{3},
				Segment: slot.Segment{Range: slot.Range{End: 4}, Contributors: slot.Bitmap{1}},
			}
			again := s
			// what it was asked in does not matter
			again.Ballot, again.Group, again.Root = 1, slot.Root{7}, slot.Root{4}
			return [2]wire.Body{s, again}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := labOf(t, "ABCD")
			a, liar := l.peers[0], l.peers[3]
			l.exact = true
			two := make2(a.m.chain.Next())
			_ = a.step(labSigned(liar, two[0]))
			if len(a.m.evidence.evictions) > 0 {
				t.Fatal("one word evicts")
			}
			_ = a.step(labSigned(liar, two[0]))
			if len(a.m.evidence.evictions) > 0 {
				t.Fatal("the same word twice evicts")
			}
			_ = a.step(labSigned(liar, two[1]))
			out := func() bool {
				return !slices.ContainsFunc(l.peers[:3], func(p *labPeer) bool {
					return slot.Find(p.m.chain.Electorate(), liar.id) >= 0 ||
						!p.m.evidence.evicted(memberKey{liar.id, liar.inc})
				})
			}
			l.within(t, 5*time.Second, "it is evicted everywhere", out)
			l.rests(10 * time.Second)
			if !out() {
				t.Error("it was taken back")
			}
		})
	}
}

// What is no contradiction, or not the accused one's, evicts nobody.
func TestFalseEvidence(t *testing.T) {
	l := labOf(t, "ABC")
	a, b, c := l.peers[0], l.peers[1], l.peers[2]
	next := a.m.chain.Next()
	vote := func(p *labPeer, ballot uint32, h byte) wire.Message {
		ref := next
		ref.Ballot = ballot
		return labSigned(p, wire.Vote{Vote: slot.Vote{Ref: ref, Hash: slot.Root{h}}})
	}
	true2 := evidenceOf(vote(c, 0, 1), vote(c, 0, 2))
	for name, change := range map[string]func(e *wire.Evidence){
		"another ballot":       func(e *wire.Evidence) { *e = evidenceOf(vote(c, 0, 1), vote(c, 1, 2)) },
		"the same vote":        func(e *wire.Evidence) { e.Second = e.First },
		"in the wrong order":   func(e *wire.Evidence) { e.First, e.Second = e.Second, e.First },
		"another's signature":  func(e *wire.Evidence) { e.Second.Sig = vote(b, 0, 2).Sig },
		"another's name":       func(e *wire.Evidence) { e.Peer, e.Incarnation = b.id, b.inc },
		"of another life":      func(e *wire.Evidence) { e.Incarnation++ },
		"no message":           func(e *wire.Evidence) { e.First.Body = e.First.Body[1:] },
		"of a kind without it": func(e *wire.Evidence) { e.Kind = slot.TypeAlive },
		"said otherwise":       func(e *wire.Evidence) { e.Kind = slot.TypeFork },
	} {
		e := true2
		change(&e)
		if err := checkEvidence(e, l.rules, labVerify); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.step(labSigned(b, e)); err == nil || len(a.m.evidence.evictions) > 0 {
			t.Errorf("%s: %v, %d evicted", name, err, len(a.m.evidence.evictions))
		}
	}
	if err := a.step(labSigned(b, true2)); err != nil || !a.m.evidence.evicted(memberKey{c.id, c.inc}) {
		t.Errorf("true evidence: %v", err)
	}
}

// HOLES H25: an honest owner that restarts and reduces again, from other contributors meanwhile, is
// no liar.
func TestH25ARestartedOwnerIsNoLiar(t *testing.T) {
	plan := slot.Plan{Slot: 3, Offers: []slot.Offer{{Peer: "a", Seq: 1}, {Peer: "b", Seq: 1}}}
	of := func(set byte) slot.Segment {
		return slot.Segment{Range: slot.Range{End: 9}, Contributors: slot.Bitmap{set}}
	}
	again := plan
	again.Offers = []slot.Offer{{Peer: "a", Seq: 1}, {Peer: "b", Seq: 2}}
	if inputsOf(plan, of(3)) == inputsOf(plan, of(1)) || inputsOf(plan, of(3)) == inputsOf(again, of(3)) {
		t.Error("other inputs have the same name")
	}
	if inputsOf(plan, of(1)) != inputsOf(again, of(1)) {
		t.Error("who is not in the range changes its inputs")
	}
	l := labOf(t, "ABCD")
	l.exact = true
	for range 6 {
		p := l.peers[1]
		p.crash()
		l.rests(700 * time.Millisecond)
		p.start()
		l.connect()
		l.rests(1300 * time.Millisecond)
	}
	for _, p := range l.peers {
		if len(p.m.evidence.evictions) > 0 {
			t.Errorf("%s has evicted %v", p.name, p.m.evidence.evictions[0].memberKey)
		}
	}
}

// pieceOf is the range that a peer owns in a plan.
func pieceOf(plan slot.Plan, owner *labPeer) slot.Range {
	return plan.Pieces[slices.IndexFunc(plan.Pieces, func(p slot.Piece) bool { return p.Owner == owner.id })].Range
}

// segmentOf is what an owner states of its segment in a plan.
func segmentOf(plan slot.Plan, s slot.Segment) wire.Segment {
	return wire.Segment{Ref: plan.Ref, Group: plan.Group(), Inputs: inputsOf(plan, s), Segment: s}
}

// Partial results of a ring pass through strangers: one that changes them the second time must not
// have an honest owner evicted.
func TestARingMakesNoEvidence(t *testing.T) {
	l, leader := ringLab(t, "ABCD")
	l.exact = true
	owner := l.aside(leader, 1)
	plan := *leader.m.open.plan
	var said []wire.Message
	for root := range byte(2) {
		s := slot.Segment{Range: pieceOf(plan, owner), Contributors: slot.Bitmap{0b1111}, Root: slot.Root{root + 1}}
		said = append(said, labSigned(owner, segmentOf(plan, s)))
	}
	for _, msg := range said {
		for _, p := range l.peers {
			_ = p.step(msg)
		}
	}
	for _, p := range l.peers {
		if len(p.m.evidence.evictions) > 0 {
			t.Errorf("%s evicts %s for a ring", p.name, labName(p.m.evidence.evictions[0].peer))
		}
	}
	if err := checkEvidence(evidenceOf(said[0], said[1]), l.rules, labVerify); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("evidence of a ring: %v", err)
	}
}

// An owner of a rotation says what it reduced from: it could escape evidence otherwise.
func TestStatementsNameTheirInputs(t *testing.T) {
	l, leader := plannedLab(t, "ABC", false)
	owner, plan := l.aside(leader, 1), *leader.m.open.lead.plan
	s := slot.Segment{Range: pieceOf(plan, owner), Contributors: slot.Bitmap{0b111}, Root: slot.Root{1}}
	for _, inputs := range []slot.Root{{}, {1}} {
		said := segmentOf(plan, s)
		said.Inputs = inputs
		if err := leader.step(labSigned(owner, said)); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("a statement with inputs %v: %v", inputs, err)
		}
	}
	if err := leader.step(labSigned(owner, segmentOf(plan, s))); err != nil {
		t.Errorf("a good statement: %v", err)
	}
}

// What is remembered of one member and of all is bounded.
func TestWordsRememberedAreBounded(t *testing.T) {
	l := labOf(t, "AB")
	a, b := l.peers[0], l.peers[1]
	next := a.m.chain.Next()
	for i := range uint32(4 * maxClaimsBy) {
		next.Ballot = i
		_ = a.step(labSigned(b, wire.Vote{Vote: slot.Vote{Ref: next}}))
	}
	if n := len(a.m.evidence.claims); n > maxClaimsBy {
		t.Errorf("%d words of one member are kept", n)
	}
}

// Strangers cost nothing: they ask to be members, and contradict themselves, as many as evictions
// are remembered. Without the rule they push out the eviction of a member, which everybody then
// forgets, and the liar keeps its vote. Of strangers the newest are forgotten: they are neither
// told of nor passed on.
func TestStrangersDoNotPushOutAnEviction(t *testing.T) {
	for name, first := range map[string]bool{"the member comes first": true, "the member comes last": false} {
		t.Run(name, func(t *testing.T) {
			l := labOf(t, "ABCD")
			a, b, liar := l.peers[0], l.peers[1], l.peers[3]
			votes := func(p *labPeer) wire.Evidence {
				return evidenceOf(labSigned(p, wire.Vote{Vote: slot.Vote{Ref: a.m.chain.Next(), Hash: slot.Root{1}}}),
					labSigned(p, wire.Vote{Vote: slot.Vote{Ref: a.m.chain.Next(), Hash: slot.Root{2}}}))
			}
			convict := func() { _ = a.m.Step(l.now, labSigned(b, votes(liar))) }
			if first {
				convict()
			}
			for i := range 2 * maxEvicted {
				s := &labPeer{lab: l, id: labID(fmt.Sprint("stranger ", i)), inc: 1}
				_ = a.m.Step(l.now, labSigned(s, wire.Alive{}))
				_ = a.m.Step(l.now, labSigned(s, wire.Join{}))
				_ = a.m.Step(l.now, labSigned(s, votes(s)))
			}
			if !first {
				convict()
			}
			if !a.m.evidence.evicted(memberKey{liar.id, liar.inc}) {
				t.Error("the eviction of a member is forgotten")
			}
			told := 0
			for _, e := range a.m.Ready().Events {
				told += btoi(e.Kind == EventEvicted)
			}
			if n := len(a.m.evidence.evictions); n != maxEvicted || told > maxEvicted+1 {
				t.Errorf("%d evictions are kept, and %d told of", n, told)
			}
		})
	}
}

// Members without a vote are anybody's names, too: where more are convicted than are remembered,
// the eviction of an elector stays.
func TestTheEvictionOfAnElectorStays(t *testing.T) {
	l := labOf(t, "ABCD")
	m, first, last := l.peers[0].m, l.peers[2], l.peers[3]
	others := withoutVotes(l, m, maxEvicted+1)
	for _, p := range slices.Concat([]*labPeer{first}, others, []*labPeer{last}) {
		m.evidence.evict(wire.Evidence{Peer: p.id, Incarnation: p.inc}, false)
	}
	if n := len(m.evidence.evictions); n != maxEvicted {
		t.Errorf("%d evictions are kept", n)
	}
	for _, p := range []*labPeer{first, last} {
		if !m.evidence.evicted(memberKey{p.id, p.inc}) {
			t.Errorf("the eviction of %s is forgotten", p.name)
		}
	}
}

// withoutVotes has a record of a machine's chain list so many members without a vote.
func withoutVotes(l *lab, m *Machine, n int) (ps []*labPeer) {
	r := m.chain.Tip()
	r.Height, r.Prev, r.Kind, r.Members = r.Height+1, m.chain.TipHash(), slot.Members, slices.Clone(r.Members)
	for i := range n {
		p := &labPeer{lab: l, id: labID(fmt.Sprintf("Z%03d", i)), inc: 1}
		r.Members = append(r.Members, slot.Member{Peer: p.id, Incarnation: p.inc, Since: r.Height})
		ps = append(ps, p)
	}
	m.chain.Push(wire.Commit{Record: r})
	return ps
}

// What is remembered of members without a vote, who are anybody, leaves room for the votes of
// electors. Without it a few of them fill the memory at each height, and the contradictions of an
// elector convict nobody.
func TestMembersWithoutAVoteDoNotFillTheWatch(t *testing.T) {
	l := labOf(t, "ABCD")
	m, liar := l.peers[0].m, l.peers[3]
	others := withoutVotes(l, m, 2*maxClaims/maxClaimsBy)
	have := func(p *labPeer, ballot uint32, hash byte) {
		ref := m.chain.Next()
		ref.Ballot = ballot
		m.evidence.watchClaims(labSigned(p, wire.Have{Vote: slot.Vote{Ref: ref, Hash: slot.Root{hash}}}))
	}
	for _, p := range others {
		for ballot := range uint32(maxClaimsBy) {
			have(p, ballot, 1)
		}
	}
	if n := len(m.evidence.claims); n == 0 || n > maxClaims {
		t.Errorf("%d claims are kept", n)
	}
	have(liar, 0, 1)
	have(liar, 0, 2)
	if len(m.evidence.evictions) != 1 {
		t.Errorf("%d evictions for the contradiction of an elector", len(m.evidence.evictions))
	}
	have(others[0], 0, 2)
	if len(m.evidence.evictions) != 2 {
		t.Errorf("%d evictions after that of a member without a vote", len(m.evidence.evictions))
	}
}
