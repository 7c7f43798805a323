package chain

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// checkSettled says whether the members that a record lists follow from those below it, whatever
// turnover its leader chose. Why a member was dropped is not in the record.
func (pos *position) checkSettled(r slot.Record) error {
	t, err := pos.turnoverOf(r)
	if err != nil {
		return err
	}
	want := pos.Settle(r, t)
	if r.Kind == slot.Fork {
		want = pos.SettleFork(r, t)
	}
	if len(r.Members) != len(want.Members) {
		return Invalid("%d members, where %d should be", len(r.Members), len(want.Members))
	}
	for i, m := range r.Members {
		if m != want.Members[i] {
			return Invalid("%s is listed as %s, not %s", m.Peer.Short(), standing(m), standing(want.Members[i]))
		}
	}
	switch {
	case !slices.Equal(r.Absent, want.Absent):
		return Invalid("%d absent members, where %d others should be", len(r.Absent), len(want.Absent))
	case !slices.Equal(r.Evicted, want.Evicted):
		return Invalid("evicted keys that do not follow those of the record below")
	case len(r.Electors()) == 0:
		return Invalid("%d members without an elector", len(r.Members))
	}
	for _, m := range r.Members {
		if slices.Contains(r.Evicted, m.Peer) {
			return Invalid("%s is a member and was evicted", m.Peer.Short())
		}
	}
	return nil
}

// turnoverOf returns the turnover that leads to a record, if there is one.
func (pos *position) turnoverOf(r slot.Record) (t Turnover, err error) {
	t.Listed = r.Members
	t.Deleted = func(e slot.Member) bool {
		_, absent := FindMember(r.Absent, e.Peer, e.Incarnation)
		return !absent
	}
	evicted := pos.tip.Evicted
	for _, p := range r.Evicted {
		if !slices.Contains(evicted, p) {
			t.Evicted = append(t.Evicted, p)
		}
	}
	if r.Kind == slot.Fork || !pos.rules.Byzantine {
		return t, nil
	}
	for _, m := range r.Members {
		if m.Seat != r.Height {
			continue
		}
		if t.Seat != "" {
			return t, Invalid("seats for both %s and %s in one record", t.Seat.Short(), m.Peer.Short())
		}
		t.Seat = m.Peer
	}
	if p := t.Seat; p != "" {
		t.Seat = ""
		if !slices.ContainsFunc(pos.Candidates(pos.Settle(r, t)), func(m slot.Member) bool { return m.Peer == p }) {
			return t, Invalid("a seat for %s, which it cannot have now", p.Short())
		}
		t.Seat = p
	}
	return t, nil
}

// seatsOfStrangers is how many seats a fork has at most if none of its signers had one.
const seatsOfStrangers = 3

// SettleFork returns a fork of the tip with the members that follow from a turnover.
//
//   - Who founds a run has a seat.
//   - From four electors on, the ones that are listed with a seat sign: they keep theirs. All
//     others are members as before.
//   - Fewer electors: those that are listed sign, and keep the seats that they have. If none has
//     one, the three with most credit get theirs. Members that are not listed are absent.
//   - Peers that are no members of the tip, and hold its state, begin without credit.
func (pos *position) SettleFork(r slot.Record, t Turnover) slot.Record {
	many := pos.rules.byzantineAt(len(pos.Electorate()))
	signs := map[slot.PeerID]bool{}
	for _, m := range t.Listed {
		signs[m.Peer] = m.Elects() || !many
	}
	if many {
		t.Listed = slices.DeleteFunc(slices.Clone(pos.Members()), func(m slot.Member) bool {
			return slices.Contains(t.Evicted, m.Peer)
		})
	}
	r.Kind = slot.Fork
	r = pos.Settle(r, Turnover{Listed: t.Listed, Deleted: t.Deleted, Evicted: t.Evicted})
	for i := range r.Members {
		m := &r.Members[i]
		if pos.tip.Height == 0 {
			m.Seat = m.Since
		} else if !signs[m.Peer] {
			m.Seat = 0
		}
	}
	if len(r.Electors()) == 0 && !many {
		for _, m := range mostCredited(slices.Clone(r.Members), seatsOfStrangers) {
			r.Members[slot.Find(r.Members, m.Peer)].Seat = r.Height
		}
	}
	return r
}
