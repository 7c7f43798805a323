package slot

import (
	"cmp"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Action is what a motion asks for. The enumeration only grows.
type Action uint8

// Motions that members may make.
const (
	// Remove ends a peer's membership for good. The secret of a private run changes with it.
	Remove Action = 1
	// Readmit lets a removed peer become a member again.
	Readmit Action = 2
	// Rotate changes the secret of a private run. Tickets that were given out before admit nobody
	// any more.
	Rotate Action = 3
)

func (a Action) String() string {
	switch a {
	case Remove:
		return "remove"
	case Readmit:
		return "readmit"
	case Rotate:
		return "rotate"
	}
	return "unknown"
}

// Bounds on access records.
const (
	MaxDecisions = 8   // of one record
	MotionSpan   = 256 // heights in which a motion counts
)

// Motion is one member's wish, in the name of its operator, to change which peers may be in the
// run. It is the body of an ORDER message.
type Motion struct {
	Action Action
	Peer   PeerID // that it is about; empty for Rotate
	// Turn is how many decisions about this peer (or rotations) the chain has. A motion is good for
	// one decision.
	Turn uint64
	From uint64 // the motion counts in records of the MotionSpan heights above this one
}

// Append appends the canonical encoding.
func (m Motion) Append(b []byte) []byte {
	b = wire.AppendU64(appendPeer(wire.AppendU8(b, uint8(m.Action)), m.Peer), m.Turn)
	return wire.AppendU64(b, m.From)
}

// ReadMotion reads what Append wrote.
func ReadMotion(r *wire.Reader) Motion {
	m := Motion{Action: readAction(r), Peer: readPeer(r), Turn: r.U64(), From: r.U64()}
	m.checkForm(r)
	return m
}

func (m Motion) checkForm(r *wire.Reader) {
	if (m.Action == Rotate) != (m.Peer == "") {
		r.Fail("a motion to %s peer %q", m.Action, m.Peer)
	}
}

// CountsAt tells whether a motion may be used in the record at a height.
func (m Motion) CountsAt(height uint64) bool { return m.From < height && height-m.From <= MotionSpan }

func readAction(r *wire.Reader) Action {
	a := Action(r.U8())
	if a < Remove || a > Rotate {
		r.Fail("action %d", a)
	}
	return a
}

// Decision is a motion that enough members have made. An access record lists it with their
// signatures, so that everybody can check it at any time. The signatures are an input of the
// record, like the offers of a step.
type Decision struct {
	Action  Action
	Peer    PeerID
	Turn    uint64
	Motions []SignedMotion // sorted by peer
}

// SignedMotion is one member's signature over the ORDER message that the decision and From make.
type SignedMotion struct {
	Peer PeerID
	From uint64
	Sig  []byte
}

const signedMotionSize, decisionSize = 4 + 8 + 4, 1 + 4 + 8 + 4 // at least

// Motion is what one of the members has signed.
func (d Decision) Motion(from uint64) Motion { return Motion{d.Action, d.Peer, d.Turn, from} }

// Compare puts the decisions of a record in order.
func (d Decision) Compare(e Decision) int {
	return cmp.Or(cmp.Compare(d.Action, e.Action), cmp.Compare(d.Peer, e.Peer))
}

// Append appends the canonical encoding.
func (d Decision) Append(b []byte) []byte {
	b = wire.AppendU64(appendPeer(wire.AppendU8(b, uint8(d.Action)), d.Peer), d.Turn)
	b = wire.AppendU32(b, uint32(len(d.Motions)))
	for _, o := range d.Motions {
		b = wire.AppendBytes(wire.AppendU64(appendPeer(b, o.Peer), o.From), o.Sig)
	}
	return b
}

// ReadDecision reads what Append wrote.
func ReadDecision(r *wire.Reader) Decision {
	d := Decision{Action: readAction(r), Peer: readPeer(r), Turn: r.U64()}
	d.Motion(0).checkForm(r)
	for i := range r.Count(MaxMembers, signedMotionSize) {
		o := SignedMotion{readPeer(r), r.U64(), append([]byte{}, r.Bytes(MaxSigLen)...)}
		if i > 0 && d.Motions[i-1].Peer >= o.Peer {
			r.Fail("motions are not in the order of their peers")
		}
		d.Motions = append(d.Motions, o)
	}
	return d
}

func appendDecisions(b []byte, ds []Decision) []byte {
	b = wire.AppendU32(b, uint32(len(ds)))
	for _, d := range ds {
		b = d.Append(b)
	}
	return b
}

func readDecisions(r *wire.Reader) (ds []Decision) {
	for i := range r.Count(MaxDecisions, decisionSize) {
		d := ReadDecision(r)
		if i > 0 && ds[i-1].Compare(d) >= 0 {
			r.Fail("decisions are out of order")
		}
		ds = append(ds, d)
	}
	return ds
}

// keyOutcome names a secret together with the decisions that bring it into force.
func keyOutcome(key Root, ds []Decision) Root {
	b := appendRoot([]byte("p2pdiloco/access/1"), key)
	for _, d := range ds {
		b = wire.AppendU64(appendPeer(wire.AppendU8(b, uint8(d.Action)), d.Peer), d.Turn)
	}
	return Hash(b)
}
