package figures

import (
	"fmt"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// named has a tracker hear of so many slots, in which cosine says that of each of n members, a, b
// and so on. It returns who is found to point the other way, and in which slot
// first; nothing else may be found.
func named(n, slots int, cosine func(s, i int) float64) (found string) {
	tr := NewTracker("self")
	var peers []slot.PeerID
	for i := range n {
		peers = append(peers, slot.PeerID(rune('a'+i)))
	}
	first := make(map[slot.PeerID]bool)
	for s := 1; s <= slots; s++ {
		tr.Begin(uint64(s), peers)
		var all []Contribution
		for i, p := range peers {
			all = append(all, Contribution{Peer: p, Cosine: cosine(s, i), Ratio: 1})
		}
		for _, change := range tr.Add(uint64(s), all) {
			if change.Kind != Opposite {
				found += change.Words
			} else if !first[change.Peer] {
				first[change.Peer] = true
				found += fmt.Sprintf("%s%d", string(change.Peer), s)
			}
		}
	}
	return found
}

// Which cosines are those of members that point the other way.
func TestOpposite(t *testing.T) {
	for name, c := range map[string]struct {
		cosines []float64
		want    string
	}{
		"one of five":  {[]float64{-.5, .5, .52, .48, .5}, "a5"},
		"two of eight": {[]float64{-.4, -.45, .5, .5, .52, .48, .5, .45}, "a5b5"},
		// as measured in runs of the built-in model with rounds of 10 steps
		"one of eight, few steps": {[]float64{-.27, .15, .16, .17, .18, .2, .21, .22}, "a5"},
		"hardly against":          {[]float64{-.1, .5, .52, .48, .5}, ""},
		"of three":                {[]float64{-.5, .5, .5}, ""},
		"one is not known":        {[]float64{-.5, .5, .5, math.NaN()}, ""},
	} {
		if got := named(len(c.cosines), 10, func(_, i int) float64 { return c.cosines[i] }); got != c.want {
			t.Errorf("%s: opposite are %q, want %q", name, got, c.want)
		}
	}
}

// Of eight members the first turns round. It is named once most of the newest contributions point
// the other way, and until few do.
func TestTurningRound(t *testing.T) {
	for name, c := range map[string]struct {
		cosine func(s int) float64
		want   string
	}{
		"at once":        {func(s int) float64 { return turned(s >= 5) }, "a7"},
		"from the start": {func(int) float64 { return -.3 }, "a5"},
		"now and then":   {func(s int) float64 { return turned(s%5 == 1 || s%5 == 3) }, ""},
		"and back":       {func(s int) float64 { return turned(s < 12) }, "a5"},
	} {
		got := named(8, 20, func(s, i int) float64 {
			if i == 0 {
				return c.cosine(s)
			}
			return .15 + .001*float64(i)
		})
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func turned(is bool) float64 {
	if is {
		return -.3
	}
	return .15
}

// A member that has left is forgotten, with what was found of it.
func TestMembersThatLeft(t *testing.T) {
	tr := NewTracker("self")
	tr.Begin(1, []slot.PeerID{"self", "a"})
	tr.Add(1, []Contribution{{Peer: "a", Cosine: .5, Ratio: 1}})
	tr.Note(1, Finding{Peer: "a", Kind: Zeros})
	if m := tr.Members()["a"]; m.Slot != 1 || len(m.Findings) != 1 {
		t.Fatalf("%+v", m)
	}
	if got := tr.Begin(2, []slot.PeerID{"self"}); len(got) != 1 || got[0].Begins || len(tr.Members()) != 0 {
		t.Errorf("after it has left: %+v, %+v", got, tr.Members())
	}
}
