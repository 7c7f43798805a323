package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// proofs keeps the signatures on offers for the open slot. A leader attaches them to what it plans,
// and drafts. Their signatures were checked before the machine was given them.
//
// Without them a leader could speak for others: an offer that its peer never made, with a sequence
// number that spends all that it will ever offer, or with bytes that nobody has.
type proofs struct {
	*facts
	presence *presence
	evidence *evidence
	known    map[slot.PeerID][]provenOffer
}

type provenOffer struct {
	slot.Offer
	proof wire.OfferProof
}

// maxProven is the number of offers of one peer that are kept for a slot. An honest peer makes
// another one only when it restarts, or trains anew.
const maxProven = 16

// maxProvers is the number of peers above which the offers of peers that are forgotten, or never
// were members, are dropped: anybody may offer for slots that are far ahead.
const maxProvers = slot.MaxMembers + maxStrangers

// announced takes an offer that its contributor has announced. It returns false for one too many,
// and for one that convicts its contributor.
func (pf *proofs) announced(o slot.Offer, proof wire.OfferProof) bool {
	if len(pf.known[o.Peer]) < maxProven {
		pf.forgetOthers()
		pf.note(o, proof)
	}
	return pf.has([]slot.Offer{o}) && !pf.evidence.evicted(memberKey{o.Peer, proof.Incarnation})
}

// note keeps an offer with its signature, in the place of the oldest if there are too many. Two
// offers of a member with the same sequence number are evidence against it. Those of a stranger are
// none that matters, since it has any number of incarnations. Both are kept all the same: a leader
// may plan with the one, and an elector that was shown the other first must not refuse its draft.
func (pf *proofs) note(o slot.Offer, proof wire.OfferProof) {
	if len(proof.Sig) == 0 || o.Slot < pf.chain.OpenSlot() {
		return
	}
	signed := provenOffer{o, proof}
	for _, k := range pf.known[o.Peer] {
		if k.Offer == o {
			return
		}
		if k.Seq == o.Seq && k.proof.Incarnation == proof.Incarnation && o.Peer != pf.cfg.Self &&
			pf.checkMember(signed.message()) == nil {
			pf.evidence.evict(evidenceOf(k.message(), signed.message()), true)
		}
	}
	kept := append(pf.known[o.Peer], signed)
	pf.known[o.Peer] = kept[max(0, len(kept)-maxProven):]
}

func (p provenOffer) message() wire.Message {
	return wire.Message{
		From: p.Peer, Incarnation: p.proof.Incarnation, Body: wire.Offer{Offer: p.Offer}, Sig: p.proof.Sig,
	}
}

// noteAll keeps the offers of a message with their proofs.
func (pf *proofs) noteAll(offers []slot.Offer, proofs []wire.OfferProof) {
	for i := range min(len(offers), len(proofs)) {
		pf.note(offers[i], proofs[i])
	}
}

// list returns the proofs of offers. Those that are not known are empty.
func (pf *proofs) list(offers []slot.Offer) []wire.OfferProof {
	if len(offers) == 0 {
		return nil
	}
	all := make([]wire.OfferProof, len(offers))
	for i, o := range offers {
		if k := slices.IndexFunc(pf.known[o.Peer], func(k provenOffer) bool { return k.Offer == o }); k >= 0 {
			all[i] = pf.known[o.Peer][k].proof
		}
	}
	return all
}

// has says whether each of the offers is known to be its contributor's.
func (pf *proofs) has(offers []slot.Offer) bool {
	return !slices.ContainsFunc(pf.list(offers), func(p wire.OfferProof) bool { return len(p.Sig) == 0 })
}

// forgetOthers drops the offers of peers that are no contacts any more and may not contribute, once
// there are too many.
func (pf *proofs) forgetOthers() {
	if len(pf.known) < maxProvers {
		return
	}
	contacts := map[slot.PeerID]bool{}
	for w := range pf.presence.known {
		contacts[w.peer] = true
	}
	for peer := range pf.known {
		if !contacts[peer] && !pf.chain.MayContribute(peer) {
			delete(pf.known, peer)
		}
	}
}

// prune forgets the offers for slots that are decided.
func (pf *proofs) prune() {
	for peer, known := range pf.known {
		pf.known[peer] = slices.DeleteFunc(known, func(k provenOffer) bool { return k.Slot < pf.chain.OpenSlot() })
		if len(pf.known[peer]) == 0 {
			delete(pf.known, peer)
		}
	}
}
