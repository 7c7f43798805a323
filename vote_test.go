package p2pdiloco

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

func TestVote(t *testing.T) {
	const waits = "4 of 4 contributions until a vote: it gets one when "
	for _, c := range []struct {
		electors, max int
		credits       []uint16 // of the others, the peer itself first
		want          string
	}{
		{2, 31, []uint16{0}, "0 of 1 contribution until a vote"},
		{4, 31, []uint16{24}, "3 of 4 contributions until a vote"},
		{4, 31, []uint16{32}, waits + "2 more members have earned one, too"},
		{4, 31, []uint16{32, 40}, waits + "1 more member has earned one, too"},
		{4, 31, []uint16{32, 40, 50}, "4 of 4 contributions until a vote: one of the next records gives it"},
		{4, 4, []uint16{40}, "4 of 4 contributions until a vote: all votes are given; it replaces a member that has " +
			"contributed half as often"},
	} {
		var tip slot.Record
		for i := range c.electors {
			tip.Members = append(tip.Members, slot.Member{Peer: slot.PeerID(rune('a' + i)), Seat: 1, Credit: 40})
		}
		for i, credit := range c.credits {
			tip.Members = append(tip.Members, slot.Member{Peer: slot.PeerID(rune('m' + i)), Credit: credit})
		}
		rules := chain.Rules{Byzantine: true, MaxElectors: c.max}
		if v := voteOf(rules, tip, "m"); v == nil || v.Text != c.want {
			t.Errorf("%d electors, credits %v: %+v", c.electors, c.credits, v)
		}
		if v := voteOf(rules, tip, "a"); v != nil {
			t.Errorf("an elector: %+v", v)
		}
	}
}
