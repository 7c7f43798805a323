package membership

import (
	"errors"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// ofThree is a lab of three members without training and of three fragments, in which so many slots
// are done.
func ofThree(t *testing.T, slots int) *lab {
	rules := labRules()
	rules.Fragments, rules.StartPeers = labFragments(3), 3
	l := connectedLab(t, rules, labTiming, "ABC")
	at := func(p *labPeer) bool {
		return p.m.View().AppliedSlot == uint64(slots) && len(p.m.chain.Electorate()) == 3
	}
	l.awaits(t, "all slots", func() bool {
		for _, p := range l.peers {
			p.trains = p.m.View().AppliedSlot < uint64(slots)
		}
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool { return !at(p) })
	})
	for _, p := range l.peers {
		p.trains = false
	}
	return l
}

// Slots take the fragments in turn, and what is said of another fragment than the slot's, or of its
// elements, is refused: in a plan, a draft, and a record, shown or to be voted for.
func TestAnotherFragmentIsRefused(t *testing.T) {
	for slots := range 4 {
		l := ofThree(t, slots)
		m := l.peers[0].m
		open := uint64(slots) + 1
		due := uint32(slots % 3)
		for height := uint64(1); height <= m.chain.Height(); height++ {
			if r := m.chain.At(height); r.Kind == slot.Step && r.Fragment != uint32(r.Slot-1)%3 {
				t.Errorf("slot %d updated fragment %d", r.Slot, r.Fragment)
			}
		}
		good := stepRecord(m, "AB")
		if err := m.chain.Check(good, 0); err != nil || good.Slot != open {
			t.Fatalf("slot %d: %v", open, err)
		}
		plan := slot.Plan{Slot: open, Fragment: due, Offers: good.Contributions}
		plan.Pieces, _ = labPlanner(plan, slot.Links{})
		if err := m.participant.checkPlan(plan); err != nil {
			t.Fatalf("slot %d: %v", open, err)
		}
		ring := plan
		ring.Ring = []uint16{1, 0}
		// a leader that wants what the run spec does not
		if err := m.participant.checkPlan(ring); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("a plan with a ring, where there are none: %v", err)
		}
		weighed := plan
		weighed.Usual++
		if err := m.participant.checkPlan(weighed); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("a plan that states a usual weight that is not the chain's: %v", err)
		}
		for _, other := range []uint32{0, 1, 2, 3, 1 << 31} {
			if other == due {
				continue
			}
			r, p := good, plan
			r.Fragment, p.Fragment = other, other
			if err := m.chain.Check(r, 0); !errors.Is(err, chain.ErrInvalid) {
				t.Errorf("a record of fragment %d for slot %d: %v", other, open, err)
			}
			if err := m.participant.checkPlan(p); !errors.Is(err, chain.ErrInvalid) {
				t.Errorf("a plan of fragment %d for slot %d: %v", other, open, err)
			}
			l.refuses(t, r)
		}
		for _, elements := range l.rules.Fragments {
			if elements == l.rules.Elements(open) {
				continue
			}
			r, p := good, plan
			r.Segments, p.Pieces = slices.Clone(r.Segments), slices.Clone(p.Pieces)
			r.Segments[len(r.Segments)-1].Range.End, p.Pieces[len(p.Pieces)-1].Range.End = elements, elements
			if err := m.chain.Check(r, 0); !errors.Is(err, chain.ErrInvalid) {
				t.Errorf("a record of %d elements for slot %d: %v", elements, open, err)
			}
			if err := m.participant.checkPlan(p); !errors.Is(err, chain.ErrInvalid) {
				t.Errorf("a plan of %d elements for slot %d: %v", elements, open, err)
			}
			l.refuses(t, r)
		}
	}
}

// proofs signs offers as their contributors would.
func (l *lab) proofs(offers []slot.Offer) (all []wire.OfferProof) {
	for _, o := range offers {
		p := l.peer(labName(o.Peer))
		all = append(all, wire.OfferProof{Incarnation: p.inc, Sig: labSigned(p, wire.Offer{Offer: o}).Sig})
	}
	return all
}

// draftOf is the draft of a record in a ballot, of a leader that is free to choose it.
func draftOf(ballot uint32, r slot.Record, proofs []wire.OfferProof) wire.Draft {
	return wire.Draft{
		Vote:    slot.Vote{Ref: slot.Ref{Height: r.Height, Prev: r.Prev, Ballot: ballot}, Hash: r.Hash()},
		Drafted: wire.Drafted{Record: r, Proofs: proofs},
	}
}

// refuses fails unless members refuse a record that the leader of the open ballot drafts.
func (l *lab) refuses(t *testing.T, r slot.Record) {
	t.Helper()
	d := l.peers[0].m.open
	leader := d.leader(d.ballot)
	for _, p := range l.peers {
		if p.id == leader.Peer {
			continue
		}
		say := func(body wire.Body) error {
			return p.step(wire.Message{From: leader.Peer, Incarnation: leader.Incarnation, Body: body})
		}
		err := say(draftOf(d.ballot, r, l.proofs(r.Contributions)))
		if !errors.Is(err, chain.ErrInvalid) || p.m.pledges.open.Have != nil {
			t.Errorf("%s takes a draft of fragment %d: %v", p.name, r.Fragment, err)
		}
	}
}
