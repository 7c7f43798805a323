package chain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// SummaryAbove returns the hash of the chain's summary, if the record above the tip has to name it;
// zero if not.
func (pos *position) SummaryAbove() slot.Root {
	every := pos.rules.SummaryEvery
	if every == 0 || (pos.tip.Height+1)%every != 0 {
		return slot.Root{}
	}
	if pos.summed == nil {
		h := summaryHash(pos.state.append(nil))
		pos.summed = &h
	}
	return *pos.summed
}

func summaryHash(summary []byte) slot.Root {
	return slot.Hash(append([]byte("p2pdiloco/summary/1"), summary...))
}

// append appends the canonical encoding of a state: the summary of the chain.
func (s *state) append(b []byte) []byte {
	b = canonical.AppendU64(b, s.height)
	b = wire.AppendRoot(wire.AppendRoot(b, s.founding), s.branch)
	for _, v := range []uint64{s.stepWork, s.stepHeight, s.shared, s.linked.count} {
		b = canonical.AppendU64(b, v)
	}
	b = wire.AppendRoot(wire.AppendRoot(b, s.linked.root), s.linked.newest)
	b = appendMap(b, s.spent, func(b []byte, v spending) []byte {
		return canonical.AppendU64(canonical.AppendU64(b, v.seq), v.slot)
	})
	b = s.access.append(b, s.newcomers.proven)
	b = s.newcomers.append(b)
	b = appendMembers(b, s.electors)
	b = canonical.AppendU32(b, uint32(len(s.provisional)))
	for _, p := range s.provisional {
		b = canonical.AppendBool(appendMembers(canonical.AppendU64(b, p.Height), p.Electors), p.Few)
	}
	b = canonical.AppendU64(canonical.AppendBool(b, s.seating.started), s.seating.replaced)
	b = appendMembers(b, s.seating.leftOut)
	return s.assigner.append(b)
}

func (a *Access) append(b []byte, proven map[slot.PeerID]struct{}) []byte {
	b = canonical.AppendU32(b, uint32(len(a.ever)))
	for _, p := range slices.Sorted(maps.Keys(a.ever)) {
		_, contributed := proven[p]
		b = canonical.AppendBool(canonical.AppendU64(canonical.AppendBytes(b, p), a.ever[p]), contributed)
	}
	b = appendMap(b, a.removed, func(b []byte, v Removal) []byte {
		return wire.AppendRoot(canonical.AppendU64(b, v.Height), v.Record)
	})
	b = appendMap(b, a.turns, canonical.AppendU64)
	b = wire.AppendRoot(wire.AppendRoot(b, a.key), a.newest)
	b = canonical.AppendU32(b, uint32(len(a.keys)))
	for _, k := range slices.SortedFunc(maps.Keys(a.keys), compareRoots) {
		b = wire.AppendRoot(b, k)
	}
	return b
}

func (c *Newcomers) append(b []byte) []byte {
	return canonical.AppendU32(canonical.AppendU32(b, uint32(c.quota)), uint32(c.admitted))
}

func (d *assigner) append(b []byte) []byte {
	b = canonical.AppendU64(canonical.AppendU64(b, d.next), d.first)
	b = canonical.AppendU32(b, uint32(len(d.back)))
	for _, p := range d.back {
		b = p.append(b)
	}
	b = canonical.AppendU32(b, uint32(len(d.shares)))
	for _, of := range d.shares {
		b = canonical.AppendU32(b, uint32(len(of)))
		for _, s := range of {
			b = s.piece.append(canonical.AppendBytes(b, s.peer))
		}
	}
	return b
}

func (p piece) append(b []byte) []byte {
	return canonical.AppendBytes(canonical.AppendU64(canonical.AppendU64(b, p.part), p.done), p.of)
}

// appendMap appends a map in the order of its keys.
func appendMap[V any](b []byte, m map[slot.PeerID]V, value func([]byte, V) []byte) []byte {
	b = canonical.AppendU32(b, uint32(len(m)))
	for _, p := range slices.Sorted(maps.Keys(m)) {
		b = value(canonical.AppendBytes(b, p), m[p])
	}
	return b
}

func appendMembers(b []byte, members []slot.Member) []byte {
	b = canonical.AppendU32(b, uint32(len(members)))
	for _, m := range members {
		b = canonical.AppendU64(canonical.AppendBytes(b, m.Peer), uint64(m.Incarnation))
		b = canonical.AppendU16(canonical.AppendU64(canonical.AppendU64(b, m.Since), m.Seat), m.Credit)
	}
	return b
}

func compareRoots(a, b slot.Root) int { return slices.Compare(a[:], b[:]) }

// maxEntries bounds each list of a summary of somebody else's.
const maxEntries = 1 << 20

// summaryReader reads a summary.
type summaryReader struct {
	*canonical.Reader
	most int // entries of a list
}

// parseSummary reads what state.append wrote, with at most so many entries in a list. What this
// peer has written itself has no such bound: it followed the records that led there, and has
// nothing else to go on from.
func parseSummary(rules Rules, b []byte, most int) (s state, err error) {
	r := summaryReader{canonical.NewReader(b), most}
	s = state{height: r.U64(), founding: r.root(), branch: r.root()}
	s.stepWork, s.stepHeight, s.shared = r.U64(), r.U64(), r.U64()
	s.linked = linked{r.U64(), r.root(), r.root()}
	s.spent = readMap(r, 16, func() spending { return spending{r.U64(), r.U64()} })
	s.newcomers = &Newcomers{proven: map[slot.PeerID]struct{}{}}
	s.access = readAccess(r, s.newcomers.proven)
	s.newcomers.quota, s.newcomers.admitted = int(r.U32()), int(r.U32())
	s.electors = readMembers(r)
	for range r.Count(r.most, 13) {
		s.provisional = append(s.provisional, Provisional{Height: r.U64(), Electors: readMembers(r), Few: r.Bool()})
	}
	s.seating = seating{started: r.Bool(), replaced: r.U64(), leftOut: readMembers(r)}
	s.assigner = readAssigner(rules, r)
	return s, r.Done()
}

func readAccess(r summaryReader, proven map[slot.PeerID]struct{}) *Access {
	a := newAccess()
	type name struct {
		listed      uint64
		contributed bool
	}
	for p, n := range readMap(r, 9, func() name { return name{r.U64(), r.Bool()} }) {
		a.ever[p] = n.listed
		if n.contributed {
			proven[p] = struct{}{}
		}
	}
	a.removed = readMap(r, 40, func() Removal { return Removal{r.U64(), r.root()} })
	a.turns = readMap(r, 8, r.U64)
	a.key, a.newest = r.root(), r.root()
	a.keys = map[slot.Root]bool{}
	for range r.Count(r.most, 32) {
		a.keys[r.root()] = true
	}
	return a
}

func readAssigner(rules Rules, r summaryReader) *assigner {
	d := &assigner{rules: rules, next: r.U64(), first: r.U64()}
	for range r.Count(r.most, 20) {
		d.back = append(d.back, readPiece(r))
	}
	for range r.Count(r.most, 4) {
		var of shares
		for range r.Count(r.most, 24) {
			of = append(of, share{readPeer(r), readPiece(r)})
		}
		d.shares = append(d.shares, of)
	}
	return d
}

func (r summaryReader) root() slot.Root { return wire.ReadRoot(r.Reader) }

func readPiece(r summaryReader) piece { return piece{r.U64(), r.U64(), readPeer(r)} }

func readPeer(r summaryReader) slot.PeerID { return slot.PeerID(r.Bytes(slot.MaxPeerIDLen)) }

func readMap[V any](r summaryReader, size int, value func() V) map[slot.PeerID]V {
	m := map[slot.PeerID]V{}
	last := slot.PeerID("")
	for i := range r.Count(r.most, 4+size) {
		p := readPeer(r)
		if i > 0 && cmp.Compare(last, p) >= 0 {
			r.Fail("a summary that is not sorted")
		}
		m[p], last = value(), p
	}
	return m
}

func readMembers(r summaryReader) (members []slot.Member) {
	for range r.Count(slot.MaxMembers, 30) {
		members = append(members, slot.Member{
			Peer: readPeer(r), Incarnation: slot.Incarnation(r.U64()), Since: r.U64(), Seat: r.U64(), Credit: r.U16(),
		})
	}
	return members
}
