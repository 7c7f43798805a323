package p2pdiloco

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

func TestAgreement(t *testing.T) {
	for _, c := range []struct {
		n           int
		byzantine   bool
		quorum      int
		liars       int
		want, never string
	}{
		{1, false, 1, 0, "1 member: goes on while it lives, withstands no liar", ""},
		{2, false, 2, 0, "2 members: goes on while the senior, , lives, withstands no liar", ""},
		{4, false, 3, 0, "4 members: goes on while 3 live, or 2 with the senior, , withstands no liar", ""},
		{5, false, 3, 0, "5 members: goes on while 3 live, withstands no liar", ""},
		{2, true, 2, 0, "2 electors: no liar is tolerated, goes on while the senior, , lives", ""},
		{3, true, 2, 0, "3 electors: no liar is tolerated, goes on while 2 live", ""},
		{4, true, 3, 1, "4 electors: withstands 1 that lies or is gone, goes on while 3 live", "senior"},
		{6, true, 5, 1, "6 electors: withstands 1 that lies or is gone, goes on while 5 live", "senior"},
		{7, true, 5, 2, "7 electors: withstands 2 that lie or are gone, goes on while 5 live", ""},
		{31, true, 21, 10, "31 electors: withstands 10 that lie or are gone, goes on while 21 live", ""},
	} {
		electors := make([]slot.Member, c.n)
		for i := range electors {
			electors[i] = slot.Member{Peer: slot.PeerID(rune('a' + i)), Since: 1, Seat: uint64(c.n - i)}
		}
		senior := electors[c.n-1].Peer.Short()
		want := strings.Replace(c.want, "senior, ,", "senior, "+senior+",", 1)
		a := agreementOf(chain.Rules{Byzantine: c.byzantine}, slot.Record{Members: electors})
		if a.Text != want || a.Electors != c.n || a.Quorum != c.quorum || a.Liars != c.liars ||
			(a.Trust == "byzantine") != c.byzantine || c.never != "" && strings.Contains(a.Text, c.never) {
			t.Errorf("%d, byzantine %v: %+v, want %q", c.n, c.byzantine, a, want)
		}
	}
	some := slot.Record{
		Members: []slot.Member{{Peer: "a", Seat: 1}, {Peer: "b", Seat: 1}, {Peer: "c", Seat: 1}, {Peer: "d"}},
	}
	if a := agreementOf(chain.Rules{Byzantine: true}, some); a.Electors != 3 || a.Text !=
		"3 electors of 4 members: no liar is tolerated, goes on while 2 live" {
		t.Errorf("with a member that has no seat: %+v", a)
	}
	for _, c := range []struct {
		electors      int
		rules         chain.Rules
		votes, leader string
	}{
		{5, chain.Rules{StartPeers: 4}, "every member has one from the start", "chooses by its word who is a member"},
		{3, chain.Rules{Byzantine: true, StartPeers: 1}, "the founder was given its own", "can harm the run"},
		{
			4,
			chain.Rules{Byzantine: true, StartPeers: 4},
			"the first 4 members were given theirs (start_peers), and are trusted",
			"drops no member without proof",
		},
	} {
		electors := make([]slot.Member, c.electors)
		for i := range electors {
			electors[i] = slot.Member{Peer: slot.PeerID(rune('a' + i)), Since: 1, Seat: 1}
		}
		a := agreementOf(c.rules, slot.Record{Members: electors})
		if !strings.HasPrefix(a.Votes, c.votes) || !strings.HasPrefix(a.Leader, c.leader) || a.Operator == "" {
			t.Errorf("%+v: votes: %s; a leader %s; an operator %s", c.rules, a.Votes, a.Leader, a.Operator)
		}
	}
	if a := agreementOf(chain.Rules{}, slot.Record{}); a != nil {
		t.Errorf("before there is a member: %+v", a)
	}
}
