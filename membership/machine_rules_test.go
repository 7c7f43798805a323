package membership

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func members(spec ...any) []slot.Member { // name, since, name, since, …
	var ms []slot.Member
	for i := 0; i < len(spec); i += 2 {
		since := uint64(spec[i+1].(int))
		ms = append(ms, slot.Member{Peer: labID(spec[i].(string)), Incarnation: 1, Since: since, Seat: since})
	}
	return ms
}

// labOf founds a run of peers without training.
func labOf(t *testing.T, names string, change ...func(*chain.Rules)) *lab {
	rules := labRules()
	for _, c := range change {
		c(&rules)
	}
	l := newLab(t, rules, labTiming)
	for _, n := range names {
		l.add(string(n)).trains = false
	}
	l.connect()
	l.awaits(t, "a run of all", func() bool { return len(l.peers[0].m.View().Tip.Members) == len(names) })
	l.rests(2 * time.Second)
	return l
}

// stepRecord is a valid next record with a contribution of each name.
func stepRecord(m *Machine, names string) slot.Record {
	c := m.chain
	r := slot.Record{
		Run: c.Rules().Run, Height: c.Height() + 1, Kind: slot.Step, Prev: c.TipHash(), Slot: c.OpenSlot(),
		StateRoot: m.model.state.root,
		Members:   c.Electorate(),
	}
	all := slot.NewBitmap(len(names))
	for i, n := range names {
		all.Set(i)
		r.Contributions = append(r.Contributions, slot.Offer{
			Peer: labID(string(n)), Slot: r.Slot, Seq: c.SpentSeq(labID(string(n))) + 1, Base: r.Slot - 1, Weight: 7,
		})
	}
	r.Fragment = c.Rules().Fragment(r.Slot)
	r.Segments = []slot.Segment{
		{Range: slot.Range{End: 10}, Contributors: all, Root: slot.Hash([]byte("a"))},
		{
			Range: slot.Range{Begin: 10, End: c.Rules().Elements(r.Slot)}, Contributors: all,
			Root: slot.Hash([]byte("b")),
		},
	}
	r.Work = c.Tip().Work + 7*uint64(len(names))
	return r
}

func TestCheckRecord(t *testing.T) {
	m := labOf(t, "ABC").peer("A").m
	if err := m.chain.Check(stepRecord(m, "AB"), 0); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*slot.Record){
		"run":                  func(r *slot.Record) { r.Run[0]++ },
		"height":               func(r *slot.Record) { r.Height++ },
		"prev":                 func(r *slot.Record) { r.Prev[0]++ },
		"slot":                 func(r *slot.Record) { r.Slot++ },
		"kind":                 func(r *slot.Record) { r.Kind = slot.Members },
		"fork":                 func(r *slot.Record) { r.Kind = slot.Fork },
		"work":                 func(r *slot.Record) { r.Work++ },
		"fragment":             func(r *slot.Record) { r.Fragment = 1 },
		"nobody":               func(r *slot.Record) { r.Members = nil },
		"since":                func(r *slot.Record) { r.Members[1].Since++ },
		"no seat":              func(r *slot.Record) { r.Members[1].Seat = 0 },
		"another seat":         func(r *slot.Record) { r.Members[1].Seat++ },
		"credit":               func(r *slot.Record) { r.Members[1].Credit = 8 },
		"an absent member":     func(r *slot.Record) { r.Absent = members("X", 1) },
		"an evicted key":       func(r *slot.Record) { r.Evicted = []slot.PeerID{labID("X")} },
		"order":                func(r *slot.Record) { slices.Reverse(r.Members) },
		"another incarnation":  func(r *slot.Record) { r.Members[1].Incarnation++ },
		"growth":               func(r *slot.Record) { r.Members = members("X", 4, "Y", 4) },
		"no contributions":     func(r *slot.Record) { r.Contributions = nil },
		"a stranger":           func(r *slot.Record) { r.Contributions[1].Peer = labID("Z") },
		"unsorted":             func(r *slot.Record) { slices.Reverse(r.Contributions) },
		"stale":                func(r *slot.Record) { r.Slot, r.Contributions[0].Base = 1, math.MaxUint64 },
		"of another slot":      func(r *slot.Record) { r.Contributions[0].Slot++ },
		"sequence zero":        func(r *slot.Record) { r.Contributions[0].Seq = 0 },
		"weight above the cap": func(r *slot.Record) { r.Contributions[0].Weight = 101 },
		"weightless":           func(r *slot.Record) { r.Contributions[0].Weight = 0; r.Work -= 7 },
		"no segments":          func(r *slot.Record) { r.Segments = nil },
		"a gap":                func(r *slot.Record) { r.Segments[1].Range.Begin++ },
		"empty segment":        func(r *slot.Record) { r.Segments[0].Range.End, r.Segments[1].Range.Begin = 0, 0 },
		"too short":            func(r *slot.Record) { r.Segments[1].Range.End-- },
		"nobody in a segment":  func(r *slot.Record) { r.Segments[1].Contributors = slot.NewBitmap(2) },
		"bitmap beyond":        func(r *slot.Record) { r.Segments[1].Contributors = slot.Bitmap{7} },
		"bitmap too long":      func(r *slot.Record) { r.Segments[1].Contributors = slot.Bitmap{3, 0} },
		"a contributor nowhere": func(r *slot.Record) {
			r.Segments[0].Contributors, r.Segments[1].Contributors = slot.Bitmap{1}, slot.Bitmap{1}
		},
	} {
		r := stepRecord(m, "AB")
		r.Members = slices.Clone(r.Members)
		spoil(&r)
		if err := m.chain.Check(r, 0); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSpentOffers(t *testing.T) {
	m := labOf(t, "ABC").peer("A").m
	changeRules(m, func(r *chain.Rules) { r.MaxStaleness = 2 })
	r := stepRecord(m, "AB")
	m.chain.Push(wire.Commit{Record: r})
	again := r.Contributions[0]
	again.Slot++
	if m.chain.CheckOffer(again) == nil {
		t.Error("a sequence number was spent twice")
	}
	again.Seq++
	if err := m.chain.CheckOffer(again); err != nil {
		t.Error(err)
	}
}
