package slot

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Kind says what a record does. The enumeration only grows.
type Kind uint8

// The kinds of records.
const (
	// Fork founds a run, or continues one whose quorum is gone. Every member that it lists signs
	// it.
	Fork    Kind = 1
	Step    Kind = 2 // one outer step
	Members Kind = 3 // a change of members alone, or the closing record of a run
	// a change of the peers that may be members, and of the members as it follows from that
	Access Kind = 4
)

func (k Kind) String() string {
	switch k {
	case Fork:
		return "fork"
	case Step:
		return "step"
	case Members:
		return "members"
	case Access:
		return "access"
	}
	return "unknown"
}

func kindOf(r *wire.Reader, v uint8) Kind {
	k := Kind(v)
	if k < Fork || k > Access {
		r.Fail("record kind %d", k)
	}
	return k
}

// Record is what the members agreed at one height. It contains no ballot, leader, plan, time or
// signature, so a record that is proposed again keeps its hash (HOLES H23).
type Record struct {
	Run       Root   // hash of the run spec
	Height    uint64 // 0 for the record that follows from the spec
	Kind      Kind
	Prev      Root   // hash of the record at Height-1; zero at height 0
	Slot      uint64 // outer steps done once this record is applied
	StateRoot Root   // state after the record at Height-1; zero at height 0
	// Members take part from now on, and those with a seat decide Height+1; sorted by peer; none at
	// height 0.
	Members []Member
	Absent  []Member // were dropped and have credit left, without a seat; sorted by peer
	Evicted []PeerID // may not be members; the newest last, at most MaxEvicted
	// Work is the score of the chain up to and including this record. It decides between branches.
	Work uint64

	// Step records only.
	Fragment      uint32
	Contributions []Offer   // sorted by peer
	Usual         uint64    // median weight in the step records before; see Weighing
	Segments      []Segment // in order; contributors are bitmaps over Contributions

	// Access records only. Key is the commitment to the secret of a private run from now on. If it
	// is zero, the secret stays.
	Key       Root
	Decisions []Decision // in order
}

// Genesis is R_0, which follows from the run spec.
func Genesis(run Root) Record { return Record{Run: run, Kind: Fork} }

// Outcome is the root of a step record's outcome; zero otherwise.
func (c Record) Outcome() Root {
	if c.Kind != Step {
		return Root{}
	}
	return OutcomeRoot(c.Segments)
}

// Hash names the record. It covers the body by a hash of that, so that a Head has the same one.
func (c Record) Hash() Root { return c.Head().Hash() }

// Append appends the canonical encoding.
func (c Record) Append(b []byte) []byte { return c.appendBody(c.appendHead(b)) }

// ReadRecord reads what Append wrote. It checks form, not whether the record is valid on its chain.
func ReadRecord(r *wire.Reader) Record {
	c := readHead(r)
	if c.Kind == Step {
		c.Fragment = r.U32()
		c.Contributions, c.Usual = readOffers(r), r.U64()
		c.Segments = readSegments(r, len(c.Contributions))
	}
	if c.Kind == Access {
		c.Key, c.Decisions = readRoot(r), readDecisions(r)
	}
	return c
}

// KeepsSlot tells whether a record of this kind leaves the open slot and its reduction as they are.
func (k Kind) KeepsSlot() bool { return k == Members || k == Access }

// Senior is the member that has its seat for longest, then the lowest ID. It breaks ties of exactly
// half.
func Senior(members []Member) (s Member) {
	for i, m := range members {
		if i == 0 || m.Seat < s.Seat {
			s = m
		}
	}
	return s
}

// Majority tells whether the members that in returns true for are more than half, or exactly half
// with the senior. Of an empty list nobody is. It is the quorum that withstands crashes and no
// liar; which one a run has is in its rules (membership/chain).
func Majority(members []Member, in func(Member) bool) bool {
	n := 0
	for _, m := range members {
		if in(m) {
			n++
		}
	}
	return 2*n > len(members) || 2*n == len(members) && n > 0 && in(Senior(members))
}

// LeaderOrder is the order in which electors lead the terms of a height: by BLAKE3(run | height |
// rank). A rank is an elector's place by seat. The order does not depend on the record before:
// its leader would try variants of that until a friend leads next.
func LeaderOrder(run Root, height uint64, electors []Member) []Member {
	order := slices.SortedFunc(slices.Values(electors), func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Seat, b.Seat), cmp.Compare(a.Peer, b.Peer))
	})
	keys := make(map[PeerID]Root, len(order))
	for rank, m := range order {
		keys[m.Peer] = Hash(wire.AppendU32(wire.AppendU64(appendRoot(nil, run), height), uint32(rank)))
	}
	slices.SortFunc(order, func(a, b Member) int {
		x, y := keys[a.Peer], keys[b.Peer]
		return bytes.Compare(x[:], y[:])
	})
	return order
}
