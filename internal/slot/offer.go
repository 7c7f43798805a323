package slot

import (
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Offer announces that a peer's contribution to a slot is ready. It commits to the bytes before
// another peer has seen them.
type Offer struct {
	Peer PeerID
	Slot uint64 // the slot it is for, from 1
	// Seq rises with every offer of this peer, so that a replayed or repeated offer is noticed
	// (HOLES H24).
	Seq    uint64
	Base   uint64 // the slot whose anchor the inner steps started from; Slot-1 when fresh
	Weight uint64 // tokens or samples processed, capped by the run spec
	Root   Root   // ContributionRoot of the encoded contribution
	// NormSq is the squared norm of the whole contribution: TotalNormSq of its frames. It is finite
	// and not negative.
	NormSq float64

	Steps    uint32 // inner steps behind it; 0 for unknown
	StepTime uint32 // microseconds that one of them took; 0 for unknown
}

const offerSize = 4 + 4*8 + 32 + 8 + 2*4 // at least

// Append appends the canonical encoding.
func (o Offer) Append(b []byte) []byte {
	b = appendPeer(b, o.Peer)
	b = wire.AppendU64(b, o.Slot)
	b = wire.AppendU64(b, o.Seq)
	b = wire.AppendU64(b, o.Base)
	b = wire.AppendU64(b, o.Weight)
	b = wire.AppendU64(appendRoot(b, o.Root), math.Float64bits(o.NormSq))
	return wire.AppendU32(wire.AppendU32(b, o.Steps), o.StepTime)
}

// ReadOffer reads what Append wrote.
func ReadOffer(r *wire.Reader) Offer {
	o := Offer{
		Peer: readPeer(r), Slot: r.U64(), Seq: r.U64(), Base: r.U64(), Weight: r.U64(), Root: readRoot(r),
		NormSq: math.Float64frombits(r.U64()), Steps: r.U32(), StepTime: r.U32(),
	}
	if !IsNormSq(o.NormSq) {
		r.Fail("an offer whose squared norm is %v", o.NormSq)
		return Offer{}
	}
	return o
}

// IsNormSq says whether an honest offer can state a squared norm: a number has one encoding, and
// equal offers are equal in Go.
func IsNormSq(v float64) bool {
	return math.Float64bits(v) < math.Float64bits(math.Inf(1))
}

// Offers are sorted by peer ID, one a peer.
func appendOffers(b []byte, os []Offer) []byte {
	b = wire.AppendU32(b, uint32(len(os)))
	for _, o := range os {
		b = o.Append(b)
	}
	return b
}

func readOffers(r *wire.Reader) []Offer {
	n := r.Count(MaxMembers, offerSize)
	os := make([]Offer, 0, n)
	for i := range n {
		o := ReadOffer(r)
		if i > 0 && os[i-1].Peer >= o.Peer {
			r.Fail("offers are not in the order of their peers")
		}
		os = append(os, o)
	}
	return os
}

// Ref names one attempt at one height. Every message of an attempt carries it.
type Ref struct {
	Height uint64
	Prev   Root   // hash of the record at Height-1
	Ballot uint32 // 0 first; of a term and a try in it, see Term
}

// Tries is how many ballots a term has. They are of one leader: it needs another one for another
// draft.
const Tries = 8

// Term returns the term that the ballot is in. The elector at place Term mod |E| of LeaderOrder
// leads it.
func (f Ref) Term() uint32 { return f.Ballot / Tries }

// At is the ref itself. A type that embeds a Ref tells with At which attempt it is about.
func (f Ref) At() Ref { return f }

// Append appends the canonical encoding.
func (f Ref) Append(b []byte) []byte {
	return wire.AppendU32(appendRoot(wire.AppendU64(b, f.Height), f.Prev), f.Ballot)
}

// ReadRef reads what Append wrote.
func ReadRef(r *wire.Reader) Ref { return Ref{Height: r.U64(), Prev: readRoot(r), Ballot: r.U32()} }

// Plan is the leader's division of one reduction. It binds nobody.
//
// The group of a plan stays the same: the offers, as one plan opened them. A revision marks peers
// of the group as gone and gives their pieces to others. It comes in the same ballot, from the
// leader of a higher one, or above a record that changed only the members. The work of the other
// peers goes on.
type Plan struct {
	Ref
	Revision uint32
	Opened   Opening // of the group: the plan that named it first
	Slot     uint64
	Fragment uint32  // 0 without streaming
	Offers   []Offer // the contributing peers, sorted by ID
	Usual    uint64  // median weight in the records before; see Weighing
	Gone     Bitmap  // over Offers: the peers that take no part any more; nil if there are none
	Pieces   []Piece // in order, covering the fragment without gap or overlap

	// Ring is the schedule. It is empty for rotation. Otherwise it is the ring that partial results
	// go round: places in Offers, each once. All plans of a group have the same ring. Peers that
	// are gone are skipped.
	Ring []uint16
}

// Opening names the plan that opened a group. It tells two groups with the same offers apart.
type Opening struct {
	Ref
	Revision uint32
}

func (o Opening) appendTo(b []byte) []byte { return wire.AppendU32(o.Ref.Append(b), o.Revision) }

// Group names the reduction that a plan divides. Streams and statements carry it, because they
// outlive revisions.
func (p Plan) Group() Root {
	b := p.Opened.appendTo([]byte("p2pdiloco/group/1"))
	b = wire.AppendU32(wire.AppendU64(b, p.Slot), p.Fragment)
	b = appendOffers(b, p.Offers)
	if len(p.Ring) > 0 {
		b = appendRing(b, p.Ring)
	}
	return Hash(b)
}

// Living is the number of peers of the group that are not gone.
func (p Plan) Living() int { return len(p.Offers) - p.Gone.Count() }

// Place is a peer's index in the group, or -1.
func (p Plan) Place(peer PeerID) int {
	i, ok := slices.BinarySearchFunc(p.Offers, peer,
		func(o Offer, peer PeerID) int { return strings.Compare(string(o.Peer), string(peer)) })
	if !ok {
		return -1
	}
	return i
}

// OwnsPiece says whether the contributor at a place owns a piece.
func (p Plan) OwnsPiece(place int) bool {
	return slices.ContainsFunc(p.Pieces, func(piece Piece) bool { return piece.Owner == p.Offers[place].Peer })
}

// PieceAt is the index of the piece that an element lies in, or -1.
func (p Plan) PieceAt(element uint64) int {
	i := sort.Search(len(p.Pieces), func(i int) bool { return p.Pieces[i].Range.End > element })
	if i == len(p.Pieces) || p.Pieces[i].Range.Begin > element {
		return -1
	}
	return i
}

// Wide tells whether so many contributors are enough for one range of an outcome: minPeers, and
// more than half of the group that is not gone. So if a group falls into two parts that cannot see
// each other, at most one goes on, and a peer that drops all others makes no progress.
func (p Plan) Wide(contributors, minPeers int) bool {
	return contributors >= max(1, minPeers) && 2*contributors > p.Living()
}

// Piece gives one range to the member that reduces it.
type Piece struct {
	Range Range
	Owner PeerID // one of the group
}

// MaxRanges is how many ranges one owner may state for a group of n, so that all ranges fit into an
// outcome.
func MaxRanges(n int) int { return MaxSegments / n }

// Append appends the canonical encoding.
func (p Plan) Append(b []byte) []byte {
	b = p.Opened.appendTo(wire.AppendU32(p.Ref.Append(b), p.Revision))
	b = wire.AppendU32(wire.AppendU64(b, p.Slot), p.Fragment)
	b = wire.AppendU64(appendOffers(b, p.Offers), p.Usual)
	gone := p.Gone
	if gone == nil {
		gone = NewBitmap(len(p.Offers))
	}
	b = wire.AppendBytes(b, gone)
	b = wire.AppendU32(b, uint32(len(p.Pieces)))
	for _, s := range p.Pieces {
		b = appendPeer(appendRange(b, s.Range), s.Owner)
	}
	return appendRing(b, p.Ring)
}

// ReadPlan reads what Append wrote. It checks order and adjacency, not that the plan makes sense
// for a run.
func ReadPlan(r *wire.Reader) Plan {
	p := Plan{
		Ref: ReadRef(r), Revision: r.U32(), Opened: Opening{ReadRef(r), r.U32()}, Slot: r.U64(), Fragment: r.U32(),
		Offers: readOffers(r), Usual: r.U64(),
		Gone: append(Bitmap{}, r.Bytes(MaxMembers/8)...),
	}
	if !p.Gone.Fits(len(p.Offers)) {
		r.Fail("the set of gone peers is no bitmap over %d offers", len(p.Offers))
	}
	n := r.Count(MaxSegments, 16+4)
	p.Pieces = make([]Piece, 0, n)
	for i := range n {
		s := Piece{readRange(r), readPeer(r)}
		if i > 0 && p.Pieces[i-1].Range.End != s.Range.Begin {
			r.Fail("pieces do not join")
		}
		p.Pieces = append(p.Pieces, s)
	}
	p.Ring = readRing(r, len(p.Offers))
	return p
}

// Segment is one reduced range: its contributors and its result.
type Segment struct {
	Range Range
	// Contributors is over the plan's offers, or over the record's contributions (both sorted by
	// peer).
	Contributors Bitmap
	// Root is the FrameRoot of the reduced bytes in the run's codec, before any general
	// compression.
	Root Root
}

// Append appends the canonical encoding.
func (s Segment) Append(b []byte) []byte {
	return appendRoot(wire.AppendBytes(appendRange(b, s.Range), s.Contributors), s.Root)
}

// ReadSegment reads what Append wrote. The caller checks whether the bitmap fits the plan
// (Bitmap.Fits), because the plan is not part of the encoding.
func ReadSegment(r *wire.Reader) Segment {
	return Segment{readRange(r), append(Bitmap{}, r.Bytes(MaxMembers/8)...), readRoot(r)}
}

const segmentSize = 16 + 4 + 32

func appendSegments(b []byte, ss []Segment) []byte {
	b = wire.AppendU32(b, uint32(len(ss)))
	for _, s := range ss {
		b = s.Append(b)
	}
	return b
}

// readSegments reads segments whose contributors are bitmaps over a list of the given length.
func readSegments(r *wire.Reader, contributions int) []Segment {
	n := r.Count(MaxSegments, segmentSize)
	ss := make([]Segment, 0, n)
	for i := range n {
		s := ReadSegment(r)
		if i > 0 && ss[i-1].Range.End != s.Range.Begin {
			r.Fail("segments do not join")
		}
		if !s.Contributors.Fits(contributions) {
			r.Fail("a segment's contributors are no bitmap over %d contributions", contributions)
		}
		ss = append(ss, s)
	}
	return ss
}

// OutcomeRoot is the hash of the segments of an outcome. HAVE and step records name it.
func OutcomeRoot(ss []Segment) Root {
	return Hash(appendSegments([]byte("p2pdiloco/outcome/1"), ss))
}

// Draft is what has to be held of a record that is not certified yet: its outcome, or a secret.
type Draft struct {
	Ref
	Kind          Kind
	Slot          uint64
	Fragment      uint32
	Contributions []Offer   // sorted by peer; those that are in at least one segment
	Usual         uint64    // median weight in the records before; see Weighing
	Segments      []Segment // contributors are a bitmap over Contributions

	// Only for an access record; see Record.
	Key       Root
	Decisions []Decision
}

// DraftOf returns the draft of a record in a ballot.
func DraftOf(r Record, ballot uint32) Draft {
	return Draft{
		Ref: Ref{Height: r.Height, Prev: r.Prev, Ballot: ballot}, Kind: r.Kind, Slot: r.Slot, Fragment: r.Fragment,
		Contributions: r.Contributions, Usual: r.Usual, Segments: r.Segments, Key: r.Key, Decisions: r.Decisions,
	}
}

// Outcome names what HAVE reports as held: the outcome of a step, or the next secret of a private
// run, which removed peers do not get. It is zero if nothing is to be held.
func (d Draft) Outcome() Root {
	switch d.Kind {
	case Step:
		return OutcomeRoot(d.Segments)
	case Access:
		if !d.Key.IsZero() {
			return keyOutcome(d.Key, d.Decisions)
		}
	case Fork, Members:
	}
	return Root{}
}
