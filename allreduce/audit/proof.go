package audit

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// ErrProvesNothing is wrapped by what Verify says of a proof that convicts nobody.
var ErrProvesNothing = errors.New("it proves nothing")

// Kind says what a proof is of. The enumeration only grows.
type Kind uint8

// What a proof can be of.
const (
	// FalseOutcome: an owner has signed an outcome that is not that of the contributions.
	FalseOutcome Kind = 1
	// FalseContribution: a peer has offered a frame that is no encoding, has values that are not
	// bounded, or another norm than it has committed to.
	FalseContribution Kind = 2
	// FalseTotal: a peer states another squared norm in its offer than those of its frames add up
	// to.
	FalseTotal Kind = 4
)

// Proof convicts an owner or a contributor, together with the signatures on what it names: of the
// owner on the segment and of the contributors on their offers, or of the guilty peer on its offer.
// The bytes of a FalseOutcome are those of one block: at most two chunks of 1 KiB of each peer.
type Proof struct {
	Kind      Kind
	Statement Statement        // of the owner
	Outcome   Opening          // of the owner
	Openings  []Opening        // one; of a FalseOutcome one a contributor, of its range
	Offer     slot.Offer       // FalseContribution and FalseTotal: of the guilty peer
	Leaves    []slot.FrameLeaf // FalseTotal: what the contribution commits to, of each frame
}

// blockBytes is the most bytes that an opening of one block has.
const blockBytes = 2 * wire.HashChunk

// Append appends the canonical encoding.
func (p Proof) Append(b []byte) []byte {
	b = append(b, uint8(p.Kind))
	switch p.Kind {
	case FalseContribution:
		return p.Openings[0].Append(p.Offer.Append(b))
	case FalseTotal:
		return p.appendTotal(b)
	case FalseOutcome: // it is all of the rest
	}
	b = p.Outcome.Append(p.Statement.Append(b))
	for _, o := range p.Openings {
		b = o.Append(b)
	}
	return b
}

// Hash names the proof where it is announced.
func (p Proof) Hash() slot.Root { return slot.Hash(p.Append([]byte("p2pdiloco/proof/1"))) }

// ReadProof reads what Append wrote. The bytes of the openings are not copied. It says nothing of
// what the proof proves: see Verify.
func ReadProof(b []byte) (Proof, error) {
	r := wire.NewReader(b)
	p := Proof{Kind: Kind(r.U8())}
	switch p.Kind {
	case FalseOutcome:
		p.Statement = ReadStatement(r)
		p.Outcome = ReadOpening(r, blockBytes)
		p.Openings = make([]Opening, 0, len(p.Statement.Offers))
		for range p.Statement.Offers {
			p.Openings = append(p.Openings, ReadOpening(r, blockBytes))
		}
	case FalseContribution:
		p.Offer = slot.ReadOffer(r)
		p.Openings = []Opening{ReadOpening(r, MaxFrameBytes)}
	case FalseTotal:
		p.readTotal(r)
	default:
		r.Fail("proof of kind %d", p.Kind)
	}
	if err := r.Done(); err != nil {
		return Proof{}, err
	}
	return p, nil
}

// Verify is whom a proof convicts in a run: the owner, and the contributor whose bytes the owner
// had to refuse, if there is one; or the contributor. Signatures are the caller's to check. An
// error wraps ErrProvesNothing and says why.
func (p Proof) Verify(params allreduce.Params) (guilty []slot.PeerID, err error) {
	switch p.Kind {
	case FalseOutcome:
		guilty, err = p.verifyOutcome(params)
	case FalseContribution:
		guilty, err = p.verifyContribution(params)
	case FalseTotal:
		guilty, err = p.verifyTotal(params)
	default:
		err = fmt.Errorf("it is of kind %d", p.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProvesNothing, err)
	}
	return guilty, nil
}

func (p Proof) verifyOutcome(params allreduce.Params) ([]slot.PeerID, error) {
	s, err := New(params, p.Statement)
	if err != nil {
		return nil, err
	}
	r := p.Outcome.Range
	if r.End-r.Begin > uint64(s.unit()) {
		return nil, fmt.Errorf("elements %d..%d are more than one block", r.Begin, r.End)
	}
	got, err := s.CheckOutcome(p.Outcome)
	if err != nil {
		return nil, fmt.Errorf("outcome: %w", err)
	}
	want, err := s.Recompute(r, p.Openings)
	var fault *Fault
	switch {
	case errors.As(err, &fault) && fault.Proven:
		return []slot.PeerID{s.Owner, fault.Peer}, nil
	case err != nil:
		return nil, err
	case string(got) == string(want):
		return nil, errors.New("the owner's bytes are right")
	}
	return []slot.PeerID{s.Owner}, nil
}

func (p Proof) verifyContribution(params allreduce.Params) ([]slot.PeerID, error) {
	g, err := gridsOfOffer(params, p.Offer)
	if err != nil {
		return nil, err
	}
	if len(p.Openings) != 1 {
		return nil, fmt.Errorf("%d openings", len(p.Openings))
	}
	at, err := g.span(p.Openings[0].Range)
	if err != nil {
		return nil, err
	}
	_, err = g.values(p.Offer, at, p.Openings[0])
	var fault *Fault
	switch {
	case errors.As(err, &fault) && fault.Proven:
		return []slot.PeerID{fault.Peer}, nil
	case err != nil:
		return nil, err
	}
	return nil, errors.New("the contributor's bytes and norm are right")
}

// ProveOutcome proves that the outcome of a block, as Compare has named it, is not that of the
// contributions. The openings are of a range with the block in it, in the order of the offers, and
// outcome likewise. It fails with ErrProvesNothing where that is not so.
func (s *Segment) ProveOutcome(block slot.Range, openings []Opening, outcome Opening) (Proof, error) {
	p := Proof{Kind: FalseOutcome, Statement: s.Statement}
	to, err := s.within(block)
	if err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrProvesNothing, err)
	}
	for i, o := range append([]Opening{outcome}, openings...) {
		g := s.in
		if i == 0 {
			g = s.out
		}
		from, err := s.within(o.Range)
		if err == nil {
			_, _, err = o.hash(g, from)
		}
		if err != nil || from.frame != to.frame || from.begin > to.begin || to.end > from.end {
			return Proof{}, fmt.Errorf("%w: elements %d..%d do not show the block: %v", ErrProvesNothing, o.Range.Begin,
				o.Range.End, err)
		}
		p.Openings = append(p.Openings, o.narrow(g, from, to, block))
	}
	p.Outcome, p.Openings = p.Openings[0], p.Openings[1:]
	_, err = p.Verify(s.Params)
	return p, err
}

// ProveContribution proves that a peer has offered what no honest one offers, by an opening of
// which CheckContribution gives a Fault that is Proven.
func ProveContribution(params allreduce.Params, offer slot.Offer, o Opening) (Proof, error) {
	p := Proof{Kind: FalseContribution, Offer: offer, Openings: []Opening{o}}
	_, err := p.Verify(params)
	return p, err
}

// ProveFrame proves the same by a frame that an owner has met in a reduction. The proof is of the
// whole frame only where it takes that: where the norm is false.
func ProveFrame(params allreduce.Params, offer slot.Offer, bad *allreduce.BadFrame) (Proof, error) {
	g, err := gridsOfOffer(params, offer)
	if err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrProvesNothing, err)
	}
	if bad.Frame < 0 || bad.Frame >= g.in.Frames || len(bad.Bytes) != g.in.FrameSize(bad.Frame) {
		return Proof{}, fmt.Errorf("%w: no frame %d of %d bytes", ErrProvesNothing, bad.Frame, len(bad.Bytes))
	}
	frame, unit := g.in.Elements(bad.Frame, bad.Frame+1), uint64(g.unit())
	for at := frame.Begin; at < frame.End; at += unit {
		if p, err := g.proveRange(params, offer, bad, slot.Range{Begin: at, End: min(at+unit, frame.End)}); err == nil {
			return p, nil
		}
	}
	return g.proveRange(params, offer, bad, frame)
}

// proveRange proves it by a part of the frame.
func (g grids) proveRange(params allreduce.Params, offer slot.Offer, bad *allreduce.BadFrame, r slot.Range) (
	Proof, error,
) {
	at, err := g.span(r)
	if err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrProvesNothing, err)
	}
	begin, end := bytesOf(g.in, at)
	if !g.whole(at) {
		if _, err := g.honest(bad.Bytes[begin:end], at, bad.Leaf.NormSq); err == nil {
			return Proof{}, ErrProvesNothing
		}
	}
	o := show(g.in, bad.Bytes, nil, at)
	o.Range, o.NormSq, o.Path = r, bad.Leaf.NormSq, bad.Path
	return ProveContribution(params, offer, o)
}

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
	of, err := gridsOfOffer(params, p.Offer)
	if err != nil {
		return nil, err
	}
	g := of.in
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
