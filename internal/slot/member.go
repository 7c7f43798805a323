package slot

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Member is one peer that a record lists. Since is the height of the record that first listed this
// incarnation without a gap.
type Member struct {
	Peer        PeerID      `json:"peer"`
	Incarnation Incarnation `json:"incarnation"`
	Since       uint64      `json:"since"`
	// Seat is the height of the record since which the member is an elector; 0 means that it is
	// none.
	Seat uint64 `json:"seat,omitempty"`
	// Credit counts its accepted contributions, in trust byzantine: it rises with each, and falls
	// with each step without one.
	Credit uint16 `json:"credit,omitempty"`
}

// Elects says whether the member has a seat.
func (m Member) Elects() bool { return m.Seat > 0 }

// Early is how many slots of a run are given up for another run, where nobody but the founder ever
// was a member.
const Early = 16

// MaxEvicted is the number of evicted keys that a record lists.
const MaxEvicted = 256

// Electors lists the members that decide the height above the record, sorted by peer.
func (c Record) Electors() []Member {
	n := 0
	for _, m := range c.Members {
		if m.Elects() {
			n++
		}
	}
	if n == len(c.Members) {
		return c.Members
	}
	electors := make([]Member, 0, n) // no more room than needed: such lists are kept
	for _, m := range c.Members {
		if m.Elects() {
			electors = append(electors, m)
		}
	}
	return electors
}

// Find is the place of a peer in a sorted member list, or -1.
func Find(members []Member, p PeerID) int {
	i, ok := slices.BinarySearchFunc(members, p, func(m Member, p PeerID) int { return cmp.Compare(m.Peer, p) })
	if !ok {
		return -1
	}
	return i
}

// gradedKind is set in the kind of an encoded record that says more of its members than that each
// is an elector, without credit, since it was first listed. Records of trust crash never do.
const gradedKind = 0x80

func (c Record) graded() bool {
	plain := func(m Member) bool { return m.Seat == m.Since && m.Credit == 0 }
	return len(c.Absent) > 0 || len(c.Evicted) > 0 ||
		slices.ContainsFunc(c.Members, func(m Member) bool { return !plain(m) })
}

func (c Record) appendKind(b []byte) []byte {
	k := uint8(c.Kind)
	if c.graded() {
		k |= gradedKind
	}
	return wire.AppendU8(b, k)
}

func (c *Record) readKind(r *wire.Reader) (graded bool) {
	k := r.U8()
	c.Kind = kindOf(r, k&^gradedKind)
	return k&gradedKind != 0
}

// appendRoster appends the members, and of a graded record their seats and credits, the absent
// members, and the evicted keys.
func (c Record) appendRoster(b []byte) []byte {
	graded := c.graded()
	b = wire.AppendU32(b, uint32(len(c.Members)))
	for _, m := range c.Members {
		b = appendMember(b, m)
		if graded {
			b = wire.AppendU16(wire.AppendU64(b, m.Seat), m.Credit)
		}
	}
	if !graded {
		return b
	}
	b = wire.AppendU32(b, uint32(len(c.Absent)))
	for _, m := range c.Absent {
		b = wire.AppendU16(appendMember(b, m), m.Credit)
	}
	b = wire.AppendU32(b, uint32(len(c.Evicted)))
	for _, p := range c.Evicted {
		b = appendPeer(b, p)
	}
	return b
}

func appendMember(b []byte, m Member) []byte {
	return wire.AppendU64(wire.AppendU64(appendPeer(b, m.Peer), uint64(m.Incarnation)), m.Since)
}

func readMember(r *wire.Reader) Member {
	return Member{Peer: readPeer(r), Incarnation: Incarnation(r.U64()), Since: r.U64()}
}

func (c *Record) readRoster(r *wire.Reader, graded bool) {
	const size = 4 + 16 // bytes of an entry, at least
	for range r.Count(MaxMembers, size) {
		m := readMember(r)
		if m.Seat = m.Since; graded {
			m.Seat, m.Credit = r.U64(), r.U16()
		}
		c.Members = append(c.Members, m)
	}
	checkOrder(r, c.Members)
	if !graded {
		return
	}
	for range r.Count(MaxMembers, size+2) {
		m := readMember(r)
		m.Credit = r.U16()
		c.Absent = append(c.Absent, m)
	}
	checkOrder(r, c.Absent)
	for range r.Count(MaxEvicted, 4) {
		p := readPeer(r)
		if slices.Contains(c.Evicted, p) {
			r.Fail("a key is evicted twice")
		}
		c.Evicted = append(c.Evicted, p)
	}
	if !c.graded() {
		r.Fail("seats and credits that go without saying")
	}
}

func checkOrder(r *wire.Reader, members []Member) {
	for i := 1; i < len(members); i++ {
		if members[i-1].Peer >= members[i].Peer {
			r.Fail("members are not in the order of their peers")
		}
	}
}
