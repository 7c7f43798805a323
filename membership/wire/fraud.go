package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Kinds of evidence that consist of one signed message, and of a proof that it is false: bytes that
// whoever knows the run's arithmetic can check (Rules.CheckProof). They are above all message
// types.
const (
	KindFalseOutcome slot.MessageType = 64 // a SEGMENT: the outcome is not that of its inputs
	KindFalseOffer   slot.MessageType = 65 // an OFFER: a frame is not what its root commits to
)

// MaxProof bounds a proof, in bytes, so that evidence fits into a draft: so much of all large
// proofs that one draft carries.
const MaxProof = 600 << 10

// maxGossiped is the largest proof that is gossiped as it is.
const maxGossiped = 8 << 10

// Proven says whether evidence is a proof against one message, and not two messages.
func (e Evidence) Proven() bool {
	return e.Kind == KindFalseOutcome || e.Kind == KindFalseOffer
}

// Large says whether evidence is announced by its hash.
func (e Evidence) Large() bool { return len(e.Second.Body) > maxGossiped }

// Fits says whether others take the evidence.
func (e Evidence) Fits() bool { return !e.Proven() || len(e.Second.Body) <= MaxProof }

// Hash names evidence where it is announced.
func (e Evidence) Hash() slot.Root { return slot.Hash(e.Append(nil)) }

// Append implements Body.
func (m Accuse) Append(b []byte) []byte {
	return AppendRoot(canonical.AppendU64(appendPeer(b, m.Peer), uint64(m.Incarnation)), m.Hash)
}

func readAccuse(r *canonical.Reader) Accuse {
	return Accuse{Peer: readPeer(r), Incarnation: readIncarnation(r), Hash: ReadRoot(r)}
}

// Append implements Body.
func (m Ask) Append(b []byte) []byte { return AppendRoot(b, m.Hash) }

// Inputs names what a segment was reduced from: the slot, the usual weight, the range, and the
// offers of its contributors. An owner signs it, so that another set of contributors is another
// statement.
func Inputs(slotNumber uint64, fragment uint32, usual uint64, r slot.Range, contributors []slot.Offer) slot.Root {
	b := canonical.AppendU64([]byte("p2pdiloco/inputs/1"), slotNumber)
	b = canonical.AppendU64(canonical.AppendU32(b, fragment), usual)
	b = canonical.AppendU64(canonical.AppendU64(b, r.Begin), r.End)
	for _, o := range contributors {
		b = o.Append(b)
	}
	return slot.Hash(b)
}

// Owners are the SEGMENTs that the owners of a record's segments have signed, one for each, without
// what the record says.
type Owners struct {
	Group  slot.Root // slot.Plan.Group of the plan that they are about; only if there are any
	Stated []SignedSegment
}

// SignedSegment is the SEGMENT of the owner of one segment of a record.
type SignedSegment struct {
	Peer         slot.PeerID
	Incarnation  slot.Incarnation
	Contributors slot.Bitmap // over the offers of the plan
	Sig          []byte
}

const signedSegmentSize = 4 + 8 + 4 + 4

func (w Owners) append(b []byte) []byte {
	b = canonical.AppendU32(AppendRoot(b, w.Group), uint32(len(w.Stated)))
	for _, s := range w.Stated {
		b = canonical.AppendU64(appendPeer(b, s.Peer), uint64(s.Incarnation))
		b = canonical.AppendBytes(canonical.AppendBytes(b, s.Contributors), s.Sig)
	}
	return b
}

func readOwners(r *canonical.Reader) (w Owners) {
	w.Group = ReadRoot(r)
	for range r.Count(slot.MaxSegments, signedSegmentSize) {
		w.Stated = append(w.Stated, SignedSegment{
			readPeer(r), readIncarnation(r), readSet(r), readSig(r),
		})
	}
	return w
}

// Peers lists the owners, in the order of their segments.
func (w Owners) Peers() (ps []slot.PeerID) {
	for _, s := range w.Stated {
		ps = append(ps, s.Peer)
	}
	return ps
}

// Segment is what the owner of a record's segment i has signed in a ballot.
func (w Owners) Segment(i int, at slot.Ref, r slot.Record) Segment {
	s := r.Segments[i]
	var inputs []slot.Offer
	for j, o := range r.Contributions {
		if s.Contributors.Has(j) {
			inputs = append(inputs, o)
		}
	}
	return Segment{
		Ref: at, Group: w.Group, Inputs: Inputs(r.Slot, r.Fragment, r.Usual, s.Range, inputs),
		Segment: slot.Segment{
			Range: s.Range, Contributors: w.Stated[i].Contributors, Root: s.Root,
		},
	}
}

// Check verifies the signatures of owners on the segments of a whole draft's record.
func (w Owners) Check(at slot.Ref, r slot.Record, run slot.Root, verify slot.Verifier) error {
	if len(w.Stated) != len(r.Segments) {
		return fmt.Errorf("%w: %d SEGMENTs are attached for %d segments", ErrSignature, len(w.Stated), len(r.Segments))
	}
	for i, s := range w.Stated {
		body := w.Segment(i, at, r).Append(nil)
		if !verify(s.Peer, slot.SignedBytes(slot.TypeSegment, run, s.Peer, s.Incarnation, body), s.Sig) {
			return fmt.Errorf("%w: a SEGMENT is attached that %s did not sign", ErrSignature, s.Peer.Short())
		}
	}
	return nil
}
