package report

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// VoteStatus says how far this peer is on its way to a vote, where votes are earned.
type VoteStatus struct {
	Contributions int    `json:"contributions"` // accepted ones that count towards it
	Needed        int    `json:"needed"`        // so many are enough
	Text          string `json:"text"`          // what it waits for, in plain words
}

// VoteOf returns a peer's way to a vote by the newest record; nil for a peer that has a vote, or is
// no member.
func VoteOf(rules chain.Rules, tip slot.Record, p slot.PeerID) *VoteStatus {
	way, ok := rules.ProgressOf(tip, p)
	if !ok {
		return nil
	}
	v := &VoteStatus{Contributions: way.Contributions, Needed: way.Needed}
	v.Text = fmt.Sprintf("%d of %s until a vote", way.Contributions, count(way.Needed, "contribution"))
	switch {
	case way.Contributions < way.Needed:
	case way.Full:
		v.Text += ": all votes are given; it replaces a member that has contributed half as often"
	case way.Others > 0:
		v.Text += fmt.Sprintf(": it gets one when %d more %s earned one, too", way.Others,
			choose(way.Others, "member has", "members have"))
	default:
		v.Text += ": one of the next records gives it"
	}
	return v
}
