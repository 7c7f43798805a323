package p2pdiloco

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Members have their figures and what stands out; what is not known is left out; the alarm about
// this peer is no finding about a member.
func TestAddFigures(t *testing.T) {
	members := []MemberStatus{{Peer: "a", Self: true}, {Peer: "b"}, {Peer: "c"}}
	about := func(p slot.PeerID, k figures.Kind) figures.Finding {
		return figures.Finding{Peer: p, Kind: k, Words: k.Words(), Since: 7}
	}
	alarm := addFigures(members, map[slot.PeerID]figures.Member{
		"a": {Findings: []figures.Finding{about("a", figures.Opposite), about("a", figures.OwnOpposite)}},
		"b": {
			Slot: 9, Newest: figures.Contribution{Norm: 2, Ratio: math.NaN(), Cosine: -.5, Clip: 1},
		},
	})
	if alarm != figures.OwnOpposite.Words() {
		t.Errorf("the alarm is %q", alarm)
	}
	if got := members[0].StandsOut; len(got) != 1 || got[0].Kind != "opposite" || members[0].Figures != nil {
		t.Errorf("the first member: %+v", members[0])
	}
	f := members[1].Figures
	if f == nil || *f.Cosine != -.5 || f.Ratio != nil {
		t.Fatalf("the second member: %+v", f)
	}
	if members[2].Figures != nil || members[2].StandsOut != nil {
		t.Errorf("the third member: %+v", members[2])
	}
	b, err := json.Marshal(members)
	if err != nil || !strings.Contains(string(b), `"cosine":-0.5`) || strings.Contains(string(b), "ratio") {
		t.Errorf("%s, %v", b, err)
	}
}
