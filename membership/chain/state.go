package chain

import (
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// state is what the records of a chain amount to, beside the newest ones themselves (recent): the
// rules ask for no other record. All peers with the same records have the same.
type state struct {
	founding slot.Root // hash of the record at height 1; zero: there is none
	// hash of the newest fork record: it names the chain. Zero while there is only R_0
	branch     slot.Root
	stepHeight uint64    // of the newest step; 0 while there is none
	shared     uint64    // height of the newest record that lists a second member; 0: there is none
	lasting    slot.Root // hash of the newest record that changed who decides
	spent      map[slot.PeerID]spending
	access     *Access
	newcomers  *Newcomers
	electors   []slot.Member // of the tip
	// forks that fewer than a quorum made, the oldest first; never changed in place
	provisional []Provisional
	seating     seating
	assigner    *assigner
}

// spending is the newest contribution of a peer that a record lists.
type spending struct{ seq, slot uint64 }

func newState(rules Rules) state {
	return state{
		spent: map[slot.PeerID]spending{}, access: newAccess(), newcomers: newNewcomers(rules),
		assigner: newAssigner(rules),
	}
}

func (s state) clone() state {
	s.spent = maps.Clone(s.spent)
	s.access, s.newcomers, s.assigner = s.access.clone(), s.newcomers.clone(), s.assigner.clone()
	return s
}

// follow takes in the chain's next record, which comes after tip.
func (s *state) follow(rules Rules, r slot.Record, hash slot.Root, tip slot.Record) {
	switch r.Kind {
	case slot.Fork:
		s.branch = hash
	case slot.Step:
		s.stepHeight = r.Height
	case slot.Members, slot.Access:
	}
	if r.Height == 1 {
		s.founding = hash
	}
	if len(r.Members) > 1 {
		s.shared = r.Height
	}
	if r.Kind == slot.Fork || !sameElectors(r.Electors(), s.electors) {
		s.lasting = hash
	}
	s.provisional = s.stillProvisional(rules, r)
	s.newcomers.follow(r, tip.Members)
	s.seating = s.seating.follow(r, s.electors, rules.StartPeers)
	s.electors = r.Electors()
	for _, o := range r.Contributions {
		s.spent[o.Peer] = spending{o.Seq, r.Slot}
	}
	s.access.follow(r, hash)
	s.assigner.follow(r, func(p slot.PeerID) uint64 { return s.spent[p].slot })
	// Entries of peers long gone would fill the map. Their old offers cannot come back, because an
	// offer names its slot.
	for p, v := range s.spent {
		if slot.Find(r.Members, p) < 0 && v.slot+rules.MaxStaleness < r.Slot {
			delete(s.spent, p)
		}
	}
}

// sameElectors says whether two lists of electors decide alike, whatever their credit is.
func sameElectors(a, b []slot.Member) bool {
	return slices.EqualFunc(a, b, func(a, b slot.Member) bool {
		return memberOf(a) == memberOf(b) && a.Seat == b.Seat
	})
}
