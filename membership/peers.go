package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func peersOf(members []slot.Member) []slot.PeerID {
	ps := make([]slot.PeerID, len(members))
	for i, m := range members {
		ps[i] = m.Peer
	}
	return ps
}

func offerers(offers []slot.Offer) []slot.PeerID {
	ps := make([]slot.PeerID, len(offers))
	for i, o := range offers {
		ps[i] = o.Peer
	}
	return ps
}

// union lists the peers of all lists once, sorted.
func union(lists ...[]slot.PeerID) []slot.PeerID {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// split parts a list into the peers for which may holds, and the others.
func split(list []slot.PeerID, may func(slot.PeerID) bool) (in, out []slot.PeerID) {
	for _, p := range list {
		if may(p) {
			in = append(in, p)
		} else {
			out = append(out, p)
		}
	}
	return in, out
}

// without is the list less one peer.
func without(list []slot.PeerID, p slot.PeerID) []slot.PeerID {
	return slices.DeleteFunc(slices.Clone(list), func(q slot.PeerID) bool { return p == q })
}

// insertMember adds a member in order. It returns nil if its peer is still listed in another
// incarnation.
func insertMember(members []slot.Member, e slot.Member) []slot.Member {
	if slot.Find(members, e.Peer) >= 0 {
		return nil
	}
	more := append(slices.Clone(members), e)
	slices.SortFunc(more, func(a, b slot.Member) int { return cmpPeer(a.Peer, b.Peer) })
	return more
}

func cmpPeer(a, b slot.PeerID) int { return cmp.Compare(a, b) }

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// hasOffer says whether one of the offers, sorted by peer, is of p.
func hasOffer(offers []slot.Offer, p slot.PeerID) bool {
	_, has := slices.BinarySearchFunc(offers, p, func(o slot.Offer, p slot.PeerID) int { return cmpPeer(o.Peer, p) })
	return has
}

// livingOf lists the peers of a group that are not gone.
func livingOf(p slot.Plan) []slot.PeerID {
	ps := make([]slot.PeerID, 0, len(p.Offers))
	for i, o := range p.Offers {
		if !p.Gone.Has(i) {
			ps = append(ps, o.Peer)
		}
	}
	return ps
}

// livingSet is livingOf, over the offers.
func livingSet(p slot.Plan) slot.Bitmap {
	set := slot.NewBitmap(len(p.Offers))
	for i := range p.Offers {
		if !p.Gone.Has(i) {
			set.Set(i)
		}
	}
	return set
}

// owns says whether a range lies in one piece of a peer.
func owns(p slot.Plan, peer slot.PeerID, r slot.Range) bool {
	i := p.PieceAt(r.Begin)
	return i >= 0 && p.Pieces[i].Owner == peer && r.Begin < r.End && r.End <= p.Pieces[i].Range.End
}

// withGone returns a plan with some more peers marked as gone.
func withGone(p slot.Plan, gone []slot.PeerID) slot.Plan {
	g := slot.NewBitmap(len(p.Offers))
	copy(g, p.Gone)
	for _, peer := range gone {
		g.Set(p.Place(peer))
	}
	p.Gone = g
	return p
}

// inputsOf returns a hash of everything that a statement about a range of a plan is computed from.
// It is zero in a ring, where no peer knows that.
func inputsOf(p slot.Plan, s slot.Segment) (none slot.Root) {
	if len(p.Ring) > 0 {
		return none
	}
	return wire.Inputs(p.Slot, p.Fragment, p.Usual, s.Range, contributorsOf(p, s))
}

// contributorsOf lists the offers of the contributors to a segment of a plan.
func contributorsOf(p slot.Plan, s slot.Segment) (offers []slot.Offer) {
	for i, o := range p.Offers {
		if s.Contributors.Has(i) {
			offers = append(offers, o)
		}
	}
	return offers
}

// checkStatement says whether a segment is one that a peer may sign by a plan.
func checkStatement(p slot.Plan, owner slot.PeerID, s wire.Segment) error {
	switch {
	case !s.Contributors.Fits(len(p.Offers)) || s.Contributors.Count() == 0:
		return chain.Invalid("a contributor set of %d bytes over %d offers", len(s.Contributors), len(p.Offers))
	case !owns(p, owner, s.Range):
		return ErrSender
	case s.Inputs != inputsOf(p, s.Segment):
		return chain.Invalid("a range of other inputs than it names")
	}
	return nil
}

func certificate(v slot.Vote, signatures map[slot.PeerID][]byte) slot.Certificate {
	c := slot.Certificate{Vote: v}
	for p, sig := range signatures {
		c.Signatures = append(c.Signatures, slot.Signature{Peer: p, Sig: sig})
	}
	slices.SortFunc(c.Signatures, func(a, b slot.Signature) int { return cmpPeer(a.Peer, b.Peer) })
	return c
}

func (e *effects) reportBad(p slot.PeerID) {
	e.reportPeer(EventSuspected, ReasonBadBytes, p, "sent what may not be used")
}
