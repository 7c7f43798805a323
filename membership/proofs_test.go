package membership

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A leader lists an offer that its contributor never made: with a sequence number that would spend
// all that it will ever offer, and make it think that another process uses its identity. Nobody
// takes a plan, a draft or a proposal of that kind, whatever the leader attaches to it.
func TestALeaderCannotSpeakForContributors(t *testing.T) {
	l := labOf(t, "ABC")
	d := l.peers[0].m.open
	leader := l.peer(labName(d.leader(d.ballot).Peer))
	record := stepRecord(l.peers[0].m, "ABC")
	honest := l.proofs(record.Contributions)
	victim := 0
	for labName(record.Contributions[victim].Peer) == leader.name {
		victim++
	}
	record.Contributions[victim].Seq = 1 << 63
	forged := l.proofs(record.Contributions)
	forged[victim].Sig = labSigned(leader, wire.Offer{Offer: record.Contributions[victim]}).Sig
	missing := l.proofs(record.Contributions)
	missing[victim] = wire.OfferProof{}
	plan := slot.Plan{
		Ref: d.position(d.ballot), Opened: slot.Opening{Ref: d.position(d.ballot), Revision: 1},
		Revision: 1, Slot: record.Slot,
		Offers: record.Contributions,
		Pieces: []slot.Piece{{Range: slot.Range{End: labElements}, Owner: leader.id}},
	}
	for name, proofs := range map[string][]wire.OfferProof{
		"of the offer that was made": honest, "of the leader": forged, "of the others alone": missing, "none": nil,
	} {
		for _, p := range l.peers {
			if p == leader {
				continue
			}
			if err := p.step(labSigned(leader, wire.Plan{Plan: plan, Proofs: proofs})); !errors.Is(
				err,
				wire.ErrSignature,
			) {
				t.Errorf("proofs %s: %s takes the plan: %v", name, p.name, err)
			}
			if err := p.step(labSigned(leader, draftOf(d.ballot, record, proofs))); !errors.Is(
				err,
				wire.ErrSignature,
			) {
				t.Errorf("proofs %s: %s takes the draft: %v", name, p.name, err)
			}
			if p.m.open.draft != nil || p.m.pledges.open.Have != nil {
				t.Errorf("proofs %s: %s keeps the draft", name, p.name)
			}
			if p.m.clones.own != "" {
				t.Errorf("proofs %s: %s takes itself for cloned: %s", name, p.name, p.m.clones.own)
			}
		}
	}
}

// A contributor that floods a slot with offers does not push out what the leader plans with.
func TestOffersOfOneSlotAreBounded(t *testing.T) {
	l := labOf(t, "ABC")
	a, b := l.peers[0], l.peers[1]
	first := slot.Offer{}
	for i := range uint64(2 * maxProven) {
		o := slot.Offer{Peer: b.id, Slot: a.m.chain.OpenSlot(), Base: a.m.chain.OpenSlot() - 1, Seq: 100 + i, Weight: 1}
		if i == 0 {
			first = o
		}
		err := a.step(labSigned(b, wire.Offer{Offer: o}))
		if refused := err != nil; refused != (i >= maxProven) {
			t.Fatalf("offer %d: %v", i, err)
		}
	}
	if n := len(a.m.proofs.known[b.id]); n != maxProven || !a.m.proofs.has([]slot.Offer{first}) {
		t.Errorf("%d are kept", n)
	}
}

// A record lists what an earlier life of a peer offered before the peer came back without its log:
// the peer is no clone. Only an offer for a slot that began with this life among the members would
// show that; and only on a chain on which this life has voted, since a record has no signature of
// what it lists.
func TestAnOfferOfAnEarlierLifeIsNoClone(t *testing.T) {
	l := labOf(t, "ABC")
	a := l.peers[0]
	rules := a.m.chain.Rules()
	for name, now := range map[string]struct {
		since  int // the first record that lists this life
		voted  bool
		cloned bool
	}{
		"it came back in mid-slot":        {since: 2, voted: true},
		"it was there from the beginning": {voted: true, cloned: true},
		"it has never voted here":         {},
	} {
		c := chain.New(rules, slot.Root{})
		kinds := []slot.Kind{slot.Fork, slot.Step, slot.Members, slot.Step}
		for i, kind := range kinds {
			r := slot.Record{
				Run: rules.Run, Height: uint64(i + 1), Kind: kind, Prev: c.TipHash(), Slot: c.Tip().Slot,
				Members: []slot.Member{{Peer: a.id, Incarnation: a.inc - 1, Since: 1, Seat: 1}},
			}
			if i >= now.since {
				r.Members[0].Incarnation = a.inc
			}
			if kind == slot.Step {
				r.Slot++
				r.Contributions = []slot.Offer{{Peer: a.id, Slot: r.Slot, Seq: 40 + r.Slot, Weight: 1}}
			}
			k := wire.Commit{Record: r}
			if now.voted && i == len(kinds)-1 {
				k.Certificate.Signatures = []slot.Signature{{Peer: a.id}, {Peer: labID("B")}, {Peer: labID("C")}}
			}
			c.Push(k)
		}
		m := copyMachine(a.m)
		m.clones.checkOwnSignatures(c.Commits()[len(kinds)-1], c, wire.Pledge{Vote: &wire.EntryVote{}}, 7)
		if (m.clones.own != "") != now.cloned {
			t.Errorf("%s: cloned %v", name, !now.cloned)
		}
	}
}

// Anybody may offer for slots that are far ahead, under any number of names: what is kept of it is
// bounded, and what members offer stays.
func TestOffersOfStrangersAreBounded(t *testing.T) {
	l := labOf(t, "AB")
	a, b := l.peers[0], l.peers[1]
	mine := slot.Offer{Peer: b.id, Slot: a.m.chain.OpenSlot(), Seq: 100, Base: a.m.chain.OpenSlot() - 1, Weight: 1}
	if err := a.step(labSigned(b, wire.Offer{Offer: mine})); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxProvers {
		name := fmt.Sprint("stranger ", i)
		s := &labPeer{lab: l, name: name, id: labID(name), inc: 1}
		_ = a.m.Step(l.now, labSigned(s, wire.Alive{}))
		o := slot.Offer{Peer: s.id, Slot: 1 << 60, Seq: 1, Base: 1, Weight: 1}
		_ = a.m.Step(l.now, labSigned(s, wire.Offer{Offer: o}))
	}
	if n := len(a.m.proofs.known); n > maxProvers || !a.m.proofs.has([]slot.Offer{mine}) {
		t.Errorf("offers of %d peers are kept", n)
	}
}

// Strangers contradict themselves, one after another: that evicts nobody, since it would push out
// the evictions of members, and each of them is gossiped.
func TestAStrangersOffersAreNoEvidence(t *testing.T) {
	l := labOf(t, "AB")
	a := l.peers[0]
	for i := range 2 * maxEvicted {
		s := &labPeer{lab: l, id: labID(fmt.Sprint("stranger ", i)), inc: 1}
		_ = a.m.Step(l.now, labSigned(s, wire.Alive{}))
		for weight := range uint64(2) {
			o := slot.Offer{Peer: s.id, Slot: 1 << 60, Seq: 1, Base: 1, Weight: weight + 1}
			_ = a.m.Step(l.now, labSigned(s, wire.Offer{Offer: o}))
		}
	}
	if n := len(a.m.evidence.evictions); n > 0 {
		t.Errorf("%d evictions", n)
	}
}

// A member without a vote signs two offers with one number, in slot after slot, and shows each to
// two of four electors. Without the rule half of them refuse what the others plan with, in each
// term of each leader, so one such member stops a run. It is evicted for the two instead, the
// height is decided in its first term, and nobody else is blamed.
func TestAMemberWithoutAVoteOffersTwice(t *testing.T) {
	for name, samples := range map[string]int{"no audits": 0, "audits": 8} {
		t.Run(name, func(t *testing.T) {
			rules := labRules()
			rules.Byzantine, rules.StartPeers, rules.AuditSamples = true, 5, samples
			l := connectedLab(t, rules, labTiming, "ABCDE")
			c := func() *chain.Chain { return l.peers[0].m.chain }
			l.awaits(t, "slot 5 of four", func() bool { return len(c().Electorate()) == 4 && c().Tip().Slot >= 5 })
			var liar *labPeer
			var honest []*labPeer
			for _, p := range l.peers {
				if slot.Find(c().Electorate(), p.id) < 0 {
					liar = p
				} else {
					honest = append(honest, p)
				}
			}
			l.filters = append(l.filters, &labFilter{from: liar.name, kind: "offer", left: -1})
			height, told := c().Height(), uint64(0)
			twice := func() {
				o := liar.m.own.mine
				if o == nil || o.Seq <= told {
					return
				}
				told = o.Seq
				for i, p := range honest {
					shown := *o
					shown.StepTime += uint32(i % 2)
					_ = p.step(labSigned(liar, wire.Offer{Offer: shown}))
				}
			}
			slots := c().Tip().Slot + 4
			l.awaits(t, "the slots", func() bool { twice(); return c().Tip().Slot >= slots })
			if told == 0 || slot.Find(c().Members(), liar.id) >= 0 {
				t.Errorf("the liar offers %d and is a member: %v", told, slot.Find(c().Members(), liar.id) >= 0)
			}
			for _, k := range c().Commits()[height:] {
				if k.Certificate.Term() > 0 {
					t.Errorf("height %d is decided in term %d", k.Certificate.Height, k.Certificate.Term())
				}
			}
			l.onlyEvicted(t, liar)
		})
	}
}

// A contributor that is no member any more cannot be convicted by its two offers. Whoever was shown
// the one still takes a plan with the other: it would stop the height otherwise.
func TestTheOtherOfferOfAFormerMemberIsKept(t *testing.T) {
	l := labOf(t, "AB")
	a := l.peers[0]
	former := &labPeer{lab: l, id: labID("F"), inc: 1}
	for weight := range uint64(2) {
		o := slot.Offer{Peer: former.id, Slot: a.m.chain.OpenSlot(), Seq: 1, Weight: weight + 1}
		signed := labSigned(former, wire.Offer{Offer: o})
		a.m.proofs.note(o, wire.OfferProof{Incarnation: former.inc, Sig: signed.Sig})
		if !a.m.proofs.has([]slot.Offer{o}) {
			t.Errorf("the offer of weight %d is not kept", o.Weight)
		}
	}
	if n := len(a.m.evidence.evictions); n > 0 {
		t.Errorf("%d evictions", n)
	}
}

// A member that leads sends plan after plan with another offer of its own, until no peer knows the
// signature of the one that it announced. Then it takes its part in the newest plan back, and does
// nothing more. The next leaders plan without it: nobody would take a plan with that offer.
func TestALeaderPushesOutItsOwnOffer(t *testing.T) {
	l := labOf(t, "ABC")
	d := l.peers[0].m.open
	liar := l.peer(labName(d.leader(d.ballot).Peer))
	honest := l.others(liar)
	open := honest[0].m.chain.OpenSlot()
	offer := slot.Offer{Peer: liar.id, Slot: open, Seq: 1000, Base: open - 1, Weight: 1}
	liar.crash()
	says := func(b wire.Body) {
		for _, p := range honest {
			_ = p.step(labSigned(liar, b))
		}
	}
	says(wire.Offer{Offer: offer})
	var group slot.Root
	for i := range uint32(2 * maxProven) {
		offer.Seq = 100 + uint64(i)
		plan := slot.Plan{
			Ref: d.position(
				d.ballot,
			), Opened: slot.Opening{Ref: d.position(d.ballot), Revision: 1 + i}, Revision: 1 + i, Slot: open,
			Offers: []slot.Offer{offer}, Pieces: []slot.Piece{{Range: slot.Range{End: labElements}, Owner: liar.id}},
		}
		group = plan.Group()
		says(wire.Plan{Plan: plan, Proofs: l.proofs(plan.Offers)})
	}
	c := honest[0].m.chain
	alive := wire.Alive{
		Branch: c.Branch(), Height: c.Height(), Tip: c.TipHash(), Work: c.Tip().Work, Synced: true, Applied: c.Height(),
		Contributes: true,
	}
	train(true, honest...)
	for range 600 {
		says(alive)
		for ballot := range uint32(16) {
			says(wire.Lost{Ref: d.position(ballot), Group: group, Peer: liar.id, Reason: wire.LostConnection})
		}
		if l.run(100*time.Millisecond, func() bool { return honest[0].m.chain.OpenSlot() > open }) {
			return
		}
	}
	t.Fatalf("no slot is decided\n%s\n%s", strings.Join(l.log[max(0, len(l.log)-30):], "\n"), l.show())
}
