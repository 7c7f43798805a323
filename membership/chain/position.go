package chain

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// position is the newest record with all that the rules ask about the records up to it: which
// record may come next, by whom, and with what. It has no records by height.
type position struct {
	rules   Rules
	tip     slot.Record
	tipHash slot.Root
	state
	recent recent
}

// clone returns a position that follows other records.
func (pos *position) clone() position {
	b := *pos
	b.state = pos.state.clone()
	b.recent.clip()
	return b
}

// follow takes in the chain's next record.
func (pos *position) follow(r slot.Record, hash slot.Root) {
	pos.state.follow(pos.rules, r, hash, pos.tip)
	pos.recent.follow(r)
	pos.tip, pos.tipHash = r, hash
}

// Rules returns the run spec's values that the chain is checked against.
func (pos *position) Rules() Rules { return pos.rules }

// Branch names the chain: it is the hash of the newest fork record, zero while there is only R_0.
func (pos *position) Branch() slot.Root { return pos.branch }

// LastStep returns the height of the newest step; 0 while there is none.
func (pos *position) LastStep() uint64 { return pos.stepHeight }

// SpentSeq returns the sequence number of the newest contribution of a peer that a record lists; 0:
// none.
func (pos *position) SpentSeq(p slot.PeerID) uint64 { return pos.spent[p].seq }

// Access returns what the records say about the peers that may be members.
func (pos *position) Access() *Access { return pos.access }

// Newcomers returns which peers have contributed by the records, and which only came and went.
func (pos *position) Newcomers() *Newcomers { return pos.newcomers }

// Parts returns the parts of the data that a peer was assigned, by slot.
func (pos *position) Parts(p slot.PeerID) []Part { return pos.assigner.parts(p) }

// Lasting returns the hash of the newest record that changed who decides the next ones, or zero: a
// ticket names it as the pin of who comes.
func (pos *position) Lasting() slot.Root { return pos.lasting }

// Founding returns the hash of the record at height 1, or zero while there is none.
func (pos *position) Founding() slot.Root { return pos.founding }

// Members lists the peers that take part in the run: the tip's members, with a seat or without.
func (pos *position) Members() []slot.Member { return pos.tip.Members }

// Electorate lists the members with a seat: they decide the height above the tip.
func (pos *position) Electorate() []slot.Member { return pos.electors }

// Next returns the position of the record above the tip, at ballot 0.
func (pos *position) Next() slot.Ref { return slot.Ref{Height: pos.tip.Height + 1, Prev: pos.tipHash} }

// OpenSlot returns the number of the outer step that comes next.
func (pos *position) OpenSlot() uint64 { return pos.tip.Slot + 1 }

// Ended says that the last step is recorded.
func (pos *position) Ended() bool {
	return pos.rules.LastSlot > 0 && pos.tip.Slot >= pos.rules.LastSlot
}

// Closed says that the state root after the last step is certified, too: nothing may follow.
func (pos *position) Closed() bool { return pos.Ended() && pos.tip.Kind == slot.Members }

// WorkAfter returns the chain's work with one more record: steps add their contributions' weights,
// each up to the caps, and none of those that are empty. Like all work it is a pure function of the
// chain (HOLES H28).
func (pos *position) WorkAfter(kind slot.Kind, contributions []slot.Offer) uint64 {
	if kind != slot.Step {
		return pos.tip.Work
	}
	return saturatingAdd(pos.tip.Work, pos.workOf(contributions))
}

// Staying counts the members of a list that are members of the tip, too.
func (pos *position) Staying(members []slot.Member) (n int) {
	for _, m := range members {
		if _, old := FindMember(pos.Members(), m.Peer, m.Incarnation); old {
			n++
		}
	}
	return n
}

// SharedSince says whether a record above a height lists a second member.
func (pos *position) SharedSince(height uint64) bool { return pos.shared > height }

// Listing returns the member that a peer's incarnation becomes in a successor of the tip: its
// seniority lasts while it is listed. Where seats are earned, Settle says the rest.
func (pos *position) Listing(p slot.PeerID, inc slot.Incarnation) slot.Member {
	m := slot.Member{Peer: p, Incarnation: inc, Since: pos.tip.Height + 1}
	if e, ok := pos.entry(m); ok {
		return e
	}
	if !pos.rules.Byzantine {
		m.Seat = m.Since
	}
	return m
}

// Pace returns the pace by the chain's newest slots.
func (pos *position) Pace() Pace { return pos.recent.pace(pos.rules) }
