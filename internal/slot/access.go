package slot

import (
	"cmp"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Action is what an order asks for. The enumeration only grows.
type Action uint8

// What members may order.
const (
	Remove  Action = 1 // a peer is no member any more and cannot become one; a private run's secret changes
	Readmit Action = 2 // a removed peer may become a member again
	Rotate  Action = 3 // a private run's secret changes: tickets given out before admit nobody any more
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
	OrderSpan    = 256 // heights in which an order counts
)

// Order is one member's wish, in its operator's name, for a change of who may be in the run. It is the body of an ORDER message.
type Order struct {
	Action Action
	Peer   PeerID // whom it is about; empty for Rotate
	Turn   uint64 // how many decisions about this peer (or rotations) the chain has: an order is good for one decision
	From   uint64 // it counts in records of the OrderSpan heights above this one
}

// Append appends the canonical encoding.
func (o Order) Append(b []byte) []byte {
	b = wire.AppendU64(appendPeer(wire.AppendU8(b, uint8(o.Action)), o.Peer), o.Turn)
	return wire.AppendU64(b, o.From)
}

// ReadOrder reads what Append wrote.
func ReadOrder(r *wire.Reader) Order {
	o := Order{Action: readAction(r), Peer: readPeer(r), Turn: r.U64(), From: r.U64()}
	o.checkForm(r)
	return o
}

func (o Order) checkForm(r *wire.Reader) {
	if (o.Action == Rotate) != (o.Peer == "") {
		r.Fail("an order to %s peer %q", o.Action, o.Peer)
	}
}

// CountsAt says whether an order may be used in the record at a height.
func (o Order) CountsAt(height uint64) bool { return o.From < height && height-o.From <= OrderSpan }

func readAction(r *wire.Reader) Action {
	a := Action(r.U8())
	if a < Remove || a > Rotate {
		r.Fail("action %d", a)
	}
	return a
}

// Decision is an order that enough members have given: an access record lists it with their signatures, so that everybody can check it for
// all time. They are an input of the record, like the offers of a step.
type Decision struct {
	Action Action
	Peer   PeerID
	Turn   uint64
	Orders []SignedOrder // sorted by peer
}

// SignedOrder is one member's signature over the ORDER message that the decision and From make.
type SignedOrder struct {
	Peer PeerID
	From uint64
	Sig  []byte
}

const signedOrderSize, decisionSize = 4 + 8 + 4, 1 + 4 + 8 + 4 // at least

// Order is what one of them has signed.
func (d Decision) Order(from uint64) Order { return Order{d.Action, d.Peer, d.Turn, from} }

// Compare puts the decisions of a record in order.
func (d Decision) Compare(e Decision) int {
	return cmp.Or(cmp.Compare(d.Action, e.Action), cmp.Compare(d.Peer, e.Peer))
}

// Append appends the canonical encoding.
func (d Decision) Append(b []byte) []byte {
	b = wire.AppendU64(appendPeer(wire.AppendU8(b, uint8(d.Action)), d.Peer), d.Turn)
	b = wire.AppendU32(b, uint32(len(d.Orders)))
	for _, o := range d.Orders {
		b = wire.AppendBytes(wire.AppendU64(appendPeer(b, o.Peer), o.From), o.Sig)
	}
	return b
}

// ReadDecision reads what Append wrote.
func ReadDecision(r *wire.Reader) Decision {
	d := Decision{Action: readAction(r), Peer: readPeer(r), Turn: r.U64()}
	d.Order(0).checkForm(r)
	for i := range r.Count(MaxMembers, signedOrderSize) {
		o := SignedOrder{readPeer(r), r.U64(), append([]byte{}, r.Bytes(MaxSigLen)...)}
		if i > 0 && d.Orders[i-1].Peer >= o.Peer {
			r.Fail("orders are not in the order of their peers")
		}
		d.Orders = append(d.Orders, o)
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

// keyOutcome names a secret together with what is decided when it comes in force.
func keyOutcome(key Root, ds []Decision) Root {
	b := appendRoot([]byte("p2pdiloco/access/1"), key)
	for _, d := range ds {
		b = wire.AppendU64(appendPeer(wire.AppendU8(b, uint8(d.Action)), d.Peer), d.Turn)
	}
	return Hash(b)
}
