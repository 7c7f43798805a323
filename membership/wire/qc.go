package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// QC proves the first vote of a ballot: the HAVEs of a quorum of the electors for one record. It
// also has the HAVEs of those that the record lists as electors, which may be from earlier ballots:
// they hold the outcome whatever the ballot. Height and Prev are those of the message or entry that
// the QC is in.
type QC struct {
	Ballot uint32
	Hash   slot.Root    // of the record
	Haves  []SignedHave // sorted by peer and incarnation, each once
}

// SignedHave is one HAVE of a QC.
type SignedHave struct {
	Peer        slot.PeerID
	Incarnation slot.Incarnation
	Ballot      uint32 // at most the QC's
	Sig         []byte
}

// Lock names the record that an elector has voted for, and in which ballot.
type Lock struct {
	Ballot uint32
	Hash   slot.Root
}

// Lock is the lock that a vote for this QC makes.
func (q QC) Lock() Lock { return Lock{q.Ballot, q.Hash} }

// Promised is a PROMISE as it was signed, without what travelled beside it.
type Promised struct {
	Peer        slot.PeerID
	Incarnation slot.Incarnation
	Lock        *Lock // nil: it has voted for nothing
	Sig         []byte
}

// Grounds justify a draft in a ballot above 0: the promises of a quorum of the electors and, if one
// of them names a lock, the QC of the highest. Both are empty in ballot 0.
type Grounds struct {
	Promises []Promised // sorted by peer, each once
	QC       *QC        // nil: no promise names a lock
}

// Highest returns the lock of the highest ballot that the promises name; nil: they name none.
func (g Grounds) Highest() (best *Lock) {
	for _, p := range g.Promises {
		if p.Lock != nil && (best == nil || p.Lock.Ballot > best.Ballot) {
			best = p.Lock
		}
	}
	return best
}

// check verifies the signatures of a QC. Whose they must be, the chain says.
func (q *QC) check(at slot.Ref, run slot.Root, verify slot.Verifier) error {
	if q == nil {
		return nil
	}
	for _, h := range q.Haves {
		at.Ballot = h.Ballot
		body := slot.Vote{Ref: at, Hash: q.Hash}.Append(nil)
		if h.Ballot > q.Ballot ||
			!verify(h.Peer, slot.SignedBytes(slot.TypeHave, run, h.Peer, h.Incarnation, body), h.Sig) {
			return fmt.Errorf("%w: a QC of ballot %d with a HAVE that %s did not sign", ErrSignature, q.Ballot,
				h.Peer.Short())
		}
	}
	return nil
}

// check verifies the signatures of the promises for a ballot, and of the QC.
func (g Grounds) check(at slot.Ref, run slot.Root, verify slot.Verifier) error {
	for _, p := range g.Promises {
		body := Promise{Ref: at, Lock: p.Lock}.Append(nil)
		if !verify(p.Peer, slot.SignedBytes(slot.TypePromise, run, p.Peer, p.Incarnation, body), p.Sig) {
			return fmt.Errorf("%w: a draft of ballot %d with a promise that %s did not sign", ErrSignature, at.Ballot,
				p.Peer.Short())
		}
	}
	return g.QC.check(at, run, verify)
}

func appendQC(b []byte, q *QC) []byte {
	if b = canonical.AppendBool(b, q != nil); q == nil {
		return b
	}
	b = AppendRoot(canonical.AppendU32(b, q.Ballot), q.Hash)
	b = canonical.AppendU32(b, uint32(len(q.Haves)))
	for _, h := range q.Haves {
		b = canonical.AppendU64(appendPeer(b, h.Peer), uint64(h.Incarnation))
		b = canonical.AppendBytes(canonical.AppendU32(b, h.Ballot), h.Sig)
	}
	return b
}

func readQC(r *canonical.Reader) *QC {
	if !r.Bool() {
		return nil
	}
	q := &QC{Ballot: r.U32(), Hash: ReadRoot(r)}
	// an entrant may be in twice: as an elector, and as the member that it comes back as
	for i := range r.Count(2*slot.MaxMembers, 4+8+4+4) {
		h := SignedHave{
			Peer: readPeer(r), Incarnation: slot.Incarnation(r.U64()), Ballot: r.U32(),
			Sig: append([]byte{}, r.Bytes(slot.MaxSigLen)...),
		}
		if i > 0 && !q.Haves[i-1].less(h) {
			r.Fail("the HAVEs of a QC are not in the order of their peers, each once")
		}
		q.Haves = append(q.Haves, h)
	}
	return q
}

func (h SignedHave) less(o SignedHave) bool {
	return h.Peer < o.Peer || h.Peer == o.Peer && h.Incarnation < o.Incarnation
}

func appendLock(b []byte, l *Lock) []byte {
	if b = canonical.AppendBool(b, l != nil); l == nil {
		return b
	}
	return AppendRoot(canonical.AppendU32(b, l.Ballot), l.Hash)
}

func readLock(r *canonical.Reader) *Lock {
	if !r.Bool() {
		return nil
	}
	return &Lock{Ballot: r.U32(), Hash: ReadRoot(r)}
}

func appendGrounds(b []byte, g Grounds) []byte { return appendQC(appendPromises(b, g.Promises), g.QC) }

func readGrounds(r *canonical.Reader) Grounds {
	return Grounds{Promises: readPromises(r), QC: readQC(r)}
}

func appendPromises(b []byte, promises []Promised) []byte {
	b = canonical.AppendU32(b, uint32(len(promises)))
	for _, p := range promises {
		b = canonical.AppendU64(appendPeer(b, p.Peer), uint64(p.Incarnation))
		b = canonical.AppendBytes(appendLock(b, p.Lock), p.Sig)
	}
	return b
}

func readPromises(r *canonical.Reader) (promises []Promised) {
	for i := range r.Count(slot.MaxMembers, 4+8+1+4) {
		p := Promised{
			Peer: readPeer(r), Incarnation: slot.Incarnation(r.U64()), Lock: readLock(r),
			Sig: append([]byte{}, r.Bytes(slot.MaxSigLen)...),
		}
		if i > 0 && promises[i-1].Peer >= p.Peer {
			r.Fail("promises are not in the order of their peers, each once")
		}
		promises = append(promises, p)
	}
	return promises
}
