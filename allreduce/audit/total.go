package audit

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// maxLeaves is the most frames of a contribution of which a proof can show what it commits to.
const maxLeaves = MaxFrameBytes / slot.FrameLeafSize

// ProveTotal proves that a peer states another squared norm in its offer than the norms of its
// frames add up to. leaves are what the contribution commits to, all of it.
func ProveTotal(params allreduce.Params, offer slot.Offer, leaves []slot.FrameLeaf) (Proof, error) {
	p := Proof{Kind: FalseTotal, Offer: offer, Leaves: leaves}
	_, err := p.Verify(params)
	return p, err
}

func (p Proof) verifyTotal(params allreduce.Params) ([]slot.PeerID, error) {
	if err := auditable(params); err != nil {
		return nil, err
	}
	if p.Offer.Slot == 0 {
		return nil, fmt.Errorf("an offer for slot %d", p.Offer.Slot)
	}
	g := gridsOf(params, slot.FragmentOf(p.Offer.Slot, uint64(len(params.Fragments)))).in
	if len(p.Leaves) != g.Frames {
		return nil, fmt.Errorf("norms of %d frames of %d", len(p.Leaves), g.Frames)
	}
	root := slot.ContributionRoot(p.Offer.Peer, p.Leaves, g.FrameBytes, uint64(g.TotalBytes))
	switch {
	case root != p.Offer.Root:
		return nil, fmt.Errorf("%w: they do not lead to the root %s of the offer", ErrOpening, p.Offer.Root)
	case slot.TotalNormSq(p.Leaves) == p.Offer.NormSq:
		return nil, errors.New("the norms of the frames add up to that of the offer")
	}
	return []slot.PeerID{p.Offer.Peer}, nil
}

func (p Proof) appendTotal(b []byte) []byte {
	b = wire.AppendU32(p.Offer.Append(b), uint32(len(p.Leaves)))
	for _, l := range p.Leaves {
		b = l.Append(b)
	}
	return b
}

func (p *Proof) readTotal(r *wire.Reader) {
	p.Offer = slot.ReadOffer(r)
	p.Leaves = make([]slot.FrameLeaf, r.Count(maxLeaves, slot.FrameLeafSize))
	for i := range p.Leaves {
		p.Leaves[i] = slot.ReadFrameLeaf(r)
	}
}
