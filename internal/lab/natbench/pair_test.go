package natbench

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// said is what both peers of a pair have said at a second.
type said struct {
	second int
	a, b   string // ways; "": none
	slot   bool   // both have applied slot 1
}

var ids = [2]p2pdiloco.PeerID{"a", "b"}

func fakePeer(id p2pdiloco.PeerID) *peer {
	return &peer{Peer: &crew.Peer{ID: id.String()}, slots: map[uint64]held{}}
}

// follow has a pair observed until it is done, and says at which second that was; -1: never.
func follow(p *Pair, began time.Time, all []said) (done int) {
	two := [2]*peer{fakePeer("a"), fakePeer("b")}
	var ways [2]p2p.Path
	for _, s := range all {
		now := began.Add(time.Duration(s.second) * time.Second)
		for i, way := range []string{s.a, s.b} {
			if ways[i].Way != way {
				ways[i] = p2p.Path{Way: way, Since: now}
			}
			two[i].status.Members = []p2pdiloco.MemberStatus{
				{Peer: "x", Path: &p2p.Path{Way: "direct"}}, {Peer: ids[i]}, {Peer: ids[1-i]},
			}
			if way != "" {
				two[i].status.Members[2].Path = &ways[i]
			}
			if s.slot && two[i].slots[1].root == "" {
				two[i].slots[1] = held{root: "r", at: now}
			}
		}
		if p.observe(two[0], two[1], began, now, time.Minute) {
			return s.second
		}
	}
	return -1
}

func TestPairIsObserved(t *testing.T) {
	for name, c := range map[string]struct {
		all  []said
		want Pair
		done int
	}{
		"direct at once": {
			[]said{
				{1, "", "", false},
				{2, "direct", "", false},
				{3, "direct", "direct", false},
				{9, "direct", "direct", true},
			},
			Pair{Connected: true, First: Way{"direct", "", 3}, Last: Way{"direct", "", 3}, Slot: 9},
			9,
		},
		"relayed, then punched": {
			[]said{
				{2, "relayed", "relayed", false},
				{5, "relayed", "relayed", true},
				{6, "punched", "relayed", true},
				{8, "punched", "direct", true},
			},
			Pair{Connected: true, First: Way{"relayed", "", 2}, Last: Way{"punched", "", 8}, Slot: 5},
			8,
		},
		"relayed for good": {
			[]said{{2, "relayed", "relayed", true}, {16, "relayed", "relayed", true}, {18, "relayed", "relayed", true}},
			Pair{Connected: true, First: Way{"relayed", "", 2}, Last: Way{"relayed", "", 2}, Slot: 2},
			18,
		},
		"never": {
			[]said{{30, "direct", "", false}, {61, "", "", false}},
			Pair{},
			61,
		},
		"connected and lost": {
			[]said{{3, "direct", "direct", false}, {4, "direct", "", false}, {61, "direct", "", false}},
			Pair{First: Way{"direct", "", 3}, Last: Way{"direct", "", 3}},
			61,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pair
			if done := follow(&p, time.Unix(100, 0), c.all); done != c.done || p != c.want {
				t.Errorf("done at %d s with %+v, want %d s with %+v", done, p, c.done, c.want)
			}
		})
	}
}

func TestPairTellsDifferentRoots(t *testing.T) {
	one, other := fakePeer("a"), fakePeer("b")
	one.slots[1], other.slots[1] = held{root: "r"}, held{root: "s"}
	p := Pair{A: nat.Public, B: nat.Public}
	done := p.observe(one, other, time.Unix(0, 0), time.Unix(1, 0), time.Minute)
	if !done || p.Error == "" || p.Slot != 0 || (Result{Pairs: []Pair{p}}).OK() {
		t.Errorf("%v, %+v", done, p)
	}
}

// TestEventsOfASlot: peers that applied it and peers that fetched it hold it; contributors are
// counted.
func TestEventsOfASlot(t *testing.T) {
	p := fakePeer("me")
	at := time.Unix(5, 0)
	for _, e := range []eventlog.Line{
		{Event: "slot.committed", Slot: 3, Contributors: []byte(`["a","b","c"]`)},
		{Event: "slot.applied", Slot: 3, StateRoot: "r3", Time: at},
		{Event: "state.synced", Slot: 5, StateRoot: "r5", Time: at},
		{Event: "trainer.stats", Slot: 9},
	} {
		p.observe(e)
	}
	if p.last != 5 || p.slots[3] != (held{"r3", at, 3}) || p.slots[5] != (held{"r5", at, 0}) || len(p.slots) != 2 {
		t.Errorf("%+v", p)
	}
}
