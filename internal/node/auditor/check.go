package auditor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Checker checks proofs for the ledger (chain.ProofChecker).
type Checker struct{ Params allreduce.Params }

var errOther = errors.New("the proof is about another statement than the one that was signed")

// FalseOutcome says whether a proof shows that what an owner has stated is not what its inputs
// give.
func (c Checker) FalseOutcome(owner slot.PeerID, s wire.Segment, proof []byte) error {
	p, err := audit.ReadProof(proof)
	if err != nil {
		return err
	}
	st := p.Statement
	if p.Kind != audit.FalseOutcome || st.Owner != owner || st.Range != s.Range || st.Root != s.Segment.Root ||
		s.Inputs != wire.Inputs(st.Slot, st.Fragment, st.Usual, st.Range, st.Offers) {
		return errOther
	}
	return c.convicts(p, owner)
}

// FalseOffer says whether a proof shows that a contribution is not what its offer commits to.
func (c Checker) FalseOffer(o slot.Offer, proof []byte) error {
	p, err := audit.ReadProof(proof)
	if err != nil {
		return err
	}
	if p.Kind != audit.FalseContribution && p.Kind != audit.FalseTotal || p.Offer != o {
		return errOther
	}
	return c.convicts(p, o.Peer)
}

func (c Checker) convicts(p audit.Proof, peer slot.PeerID) error {
	guilty, err := p.Verify(c.Params)
	if err == nil && !slices.Contains(guilty, peer) {
		err = fmt.Errorf("it does not convict %s", peer.Short())
	}
	return err
}
