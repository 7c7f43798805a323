package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// OfferProof is what its contributor signed an offer with: the signature of its OFFER, in the
// incarnation that made it. Plans and drafts carry one for each offer that they list, so nobody can
// list an offer that its contributor did not make. Records carry none.
type OfferProof struct {
	Incarnation slot.Incarnation
	Sig         []byte // empty where the sender has no proof
}

// Signs says whether the proof is of this offer.
func (p OfferProof) Signs(o slot.Offer, run slot.Root, verify slot.Verifier) bool {
	return verify(o.Peer, slot.SignedBytes(slot.TypeOffer, run, o.Peer, p.Incarnation, o.Append(nil)), p.Sig)
}

// HasProofs says whether a message carries signatures of others, which CheckProofs looks at.
func HasProofs(body Body) bool {
	switch b := body.(type) {
	case Plan:
		return len(b.Offers) > 0
	case Draft, Propose:
		return true
	case Promise:
		return b.Locked != nil
	}
	return false
}

// CheckProofs checks the signatures that a message carries. Plans and drafts of a free choice prove
// each offer that they list. Those of a record with a QC may lack proofs, but have no false one:
// the machine decides whether it can do without.
func CheckProofs(body Body, run slot.Root, verify slot.Verifier) error {
	switch b := body.(type) {
	case Plan:
		return checkProofs(b.Type(), b.Offers, b.Proofs, true, run, verify)
	case Draft:
		if err := b.Grounds.check(b.Ref, run, verify); err != nil {
			return err
		}
		if err := b.Attached.check(Position{b.Height, b.Prev}, run, verify); err != nil {
			return err
		}
		return checkProofs(b.Type(), b.Record.Contributions, b.Proofs, b.Grounds.QC == nil, run, verify)
	case Propose:
		return b.QC.check(b.Ref, run, verify)
	case Promise:
		if b.Locked == nil {
			return nil
		}
		if err := b.Locked.QC.check(b.Ref, run, verify); err != nil {
			return err
		}
		return checkProofs(b.Type(), b.Locked.Record.Contributions, b.Locked.Proofs, false, run, verify)
	}
	return nil
}

func checkProofs(
	t slot.MessageType,
	offers []slot.Offer,
	proofs []OfferProof,
	all bool,
	run slot.Root,
	verify slot.Verifier,
) error {
	if len(proofs) == 0 && !all {
		return nil
	}
	if len(proofs) != len(offers) {
		return fmt.Errorf("%w: %s with %d offers and %d proofs", ErrSignature, TypeName(t), len(offers), len(proofs))
	}
	for i, o := range offers {
		if len(proofs[i].Sig) == 0 && !all {
			continue
		}
		if !proofs[i].Signs(o, run, verify) {
			return fmt.Errorf("%w: %s lists an offer that %s did not sign", ErrSignature, TypeName(t), o.Peer.Short())
		}
	}
	return nil
}

func appendProofs(b []byte, proofs []OfferProof) []byte {
	b = canonical.AppendU32(b, uint32(len(proofs)))
	for _, p := range proofs {
		b = canonical.AppendBytes(canonical.AppendU64(b, uint64(p.Incarnation)), p.Sig)
	}
	return b
}

func readProofs(r *canonical.Reader) []OfferProof {
	var proofs []OfferProof
	for range r.Count(slot.MaxMembers, 8+4) {
		proofs = append(proofs, OfferProof{slot.Incarnation(r.U64()), append([]byte{}, r.Bytes(slot.MaxSigLen)...)})
	}
	return proofs
}
