package figures

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// named has a tracker hear of so many slots, each of which of says what the contribution of each of
// n members was, a, b and so on. It returns who is found to point the other way, and in which slot
// first; nothing else may be found.
func named(n, slots int, of func(s, i int) Contribution) (found string) {
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
			c := of(s, i)
			c.Peer, c.Ratio = p, 1
			all = append(all, c)
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

// Which of the mean cosines are those of members that point the other way. Newcomers that outvote
// the others do not have these called opposite.
func TestOpposite(t *testing.T) {
	for name, c := range map[string]struct {
		cosines []float64
		voters  int // the first so many; 0: all
		want    string
	}{
		"one of five":  {[]float64{-.5, .5, .52, .48, .5}, 0, "a5"},
		"two of eight": {[]float64{-.4, -.45, .5, .5, .52, .48, .5, .45}, 0, "a5b5"},
		// as measured in runs of the built-in model with rounds of 10 steps
		"one of eight, few steps":       {[]float64{-.27, .15, .16, .17, .18, .2, .21, .22}, 0, "a5"},
		"little in common":              {[]float64{-.3, .09, .1, .1, .09}, 0, ""},
		"at rest":                       {[]float64{-1, -1, -1, -1, -1}, 0, ""},
		"hardly against":                {[]float64{-.1, .5, .52, .48, .5}, 0, ""},
		"cosines all over the place":    {[]float64{-.5, -.1, .3, .5, .7}, 0, ""},
		"opposite halves of a whole":    {[]float64{-.5, -.5, -.5, .5, .5, .5}, 0, ""},
		"alike, but for their amount":   {[]float64{.2, .9, .9, .9}, 0, ""},
		"three of seven":                {[]float64{-.5, -.5, -.5, .5, .5, .52, .48}, 0, "a5b5c5"},
		"four strangers of seven":       {[]float64{-.5, -.5, -.5, .5, .5, .52, .48}, 3, ""},
		"one stranger of four":          {[]float64{.5, .48, .52, -.5}, 3, "d5"},
		"two founders say nothing":      {[]float64{-.5, .5, .5, .52, .48}, 2, "a5"},
		"most newcomers are honest too": {[]float64{.5, .5, .52, .48, .5, -.5, .51}, 3, "f5"},
	} {
		got := named(len(c.cosines), 10, func(_, i int) Contribution {
			return Contribution{Cosine: c.cosines[i], Newcomer: c.voters > 0 && i >= c.voters}
		})
		if got != c.want {
			t.Errorf("%s: opposite are %q, want %q", name, got, c.want)
		}
	}
}

// Of eight members the first turns round. It is named after as many contributions as the window
// has; never if its contributions come to rest little by little, before those of the others do.
// Where owners mark it, little that the others have in common is enough; where they do not, or
// where it has come to that little by little, it is not.
func TestTurningRound(t *testing.T) {
	turns := func(from int, before, after float64) func(int) float64 {
		return func(s int) float64 {
			if s < from {
				return before
			}
			return after
		}
	}
	never := func(int) bool { return false }
	late := func(s int) bool { return s > 5 }
	for name, c := range map[string]struct {
		cosine func(s int) float64
		others float64
		marked func(s int) bool
		slots  int
		want   string
	}{
		"at once":            {turns(5, .15, -.26), .14, never, 20, "a9"},
		"from the start":     {turns(0, 0, -.26), .14, never, 20, "a5"},
		"little by little":   {func(s int) float64 { return max(-.5, .15-.05*float64(s)) }, .14, never, 20, ""},
		"there and back":     {func(s int) float64 { return turns(1, .15, -.5)(s % 5) }, .14, never, 20, ""},
		"like the others":    {turns(0, 0, .12), .14, never, 20, ""},
		"marked":             {turns(6, .2, -.15), .05, late, 8, "a8"},
		"not marked":         {turns(6, .2, -.15), .05, never, 8, ""},
		"now and then":       {turns(6, .2, -.15), .05, func(s int) bool { return s%3 > 0 }, 8, ""},
		"marked, by little":  {turns(6, .02, -.15), .05, late, 8, ""},
		"nothing in common":  {turns(6, .2, -.15), .01, late, 8, ""},
		"others against it":  {turns(6, .2, -.15), -.05, late, 8, ""},
		"marked, and common": {turns(6, .2, -.15), .15, late, 8, "a8"},
	} {
		got := named(8, c.slots, func(s, i int) Contribution {
			if i == 0 {
				return Contribution{Cosine: c.cosine(s), Marked: c.marked(s)}
			}
			return Contribution{Cosine: c.others + .001*float64(i)}
		})
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Two of six that send the opposite leave the other four nothing in common with the outcome. Where
// they are newcomers that owners have marked ever since they came, they are named all the same.
func TestMarkedNewcomers(t *testing.T) {
	cosines := [][]float64{ // as measured beside four founders, in rounds of 10 steps
		{.01, .04, -.05, .01, .1},
		{-.1, .03, -.03, .02, .03},
		{.09, -.03, .05, -.1, .05},
		{.05, -.07, .02, .16, -.1},
		{-.08, -.28, -.48, -.37, -.43},
		{-.02, -.06, -.03, -.1, -.05}, // of one that is about as far away as others now and then
	}
	for name, c := range map[string]struct {
		marked   int // since this slot; 0: not
		newcomer bool
		like     int     // whose cosines theirs are like
		others   float64 // added to the cosines of the others
		want     string
	}{
		"marked since it came":   {1, true, 4, 0, "e5f5"},
		"not marked":             {0, true, 4, 0, ""},
		"not marked at first":    {2, true, 4, 0, ""},
		"with a vote":            {1, false, 4, 0, ""},
		"others against it, too": {1, true, 4, -.25, ""},
		"hardly against":         {1, true, 5, .1, ""},
	} {
		got := named(6, 5, func(s, i int) Contribution {
			if i < 4 {
				return Contribution{Cosine: cosines[i][s-1] + c.others}
			}
			marked := c.marked > 0 && s >= c.marked
			return Contribution{Cosine: cosines[c.like][s-1], Newcomer: c.newcomer, Marked: marked}
		})
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An owner that publishes nothing three times in a row is named, until it publishes again; one that
// is no member any more is forgotten, with what was found of it.
func TestUnpublished(t *testing.T) {
	tr, said := NewTracker("self"), ""
	for s, published := range "nynnnnynnn" {
		for _, change := range tr.Published(uint64(s+1), "owner", published == 'y') {
			said += fmt.Sprintf("%v %d ", change.Begins, s+1)
		}
	}
	f := tr.Findings()
	if said != "true 5 false 7 true 10 " || len(f) != 1 || f[0].Kind != Unpublished || f[0].Since != 10 {
		t.Fatalf("%s; found is %+v", said, f)
	}
	if got := tr.Begin(11, []slot.PeerID{"self"}); len(got) != 1 || got[0].Begins || len(tr.Members()) != 0 {
		t.Errorf("after it has left: %+v, %+v", got, tr.Members())
	}
}
