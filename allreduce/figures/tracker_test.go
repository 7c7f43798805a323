package figures

import (
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Which of the mean cosines are those of members that point the other way.
func TestOpposite(t *testing.T) {
	for name, c := range map[string]struct {
		cosines []float64
		want    int // of the first
	}{
		"one of five":  {[]float64{-.5, .5, .52, .48, .5}, 1},
		"two of eight": {[]float64{-.4, -.45, .5, .5, .52, .48, .5, .45}, 2},
		// as measured in runs of the built-in model with rounds of 10 steps
		"one of eight, few steps":     {[]float64{-.27, .15, .16, .17, .18, .2, .21, .22}, 1},
		"little in common":            {[]float64{-.3, .09, .1, .1, .09}, 0},
		"at rest":                     {[]float64{-1, -1, -1, -1, -1}, 0},
		"hardly against":              {[]float64{-.1, .5, .52, .48, .5}, 0},
		"cosines all over the place":  {[]float64{-.5, -.1, .3, .5, .7}, 0},
		"opposite halves of a whole":  {[]float64{-.5, -.5, -.5, .5, .5, .5}, 0},
		"alike, but for their amount": {[]float64{.2, .9, .9, .9}, 0},
	} {
		got := 0
		for _, v := range c.cosines {
			u := usual{common: median(c.cosines), spread: deviation(c.cosines)}
			if u.opposite(v, leastCommon) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d are opposite, want %d", name, got, c.want)
		}
	}
}

// Newcomers that outvote the others do not have these called opposite.
func TestNewcomersDoNotSayWhatIsUsual(t *testing.T) {
	for name, c := range map[string]struct {
		cosines []float64
		voters  int // the first so many
		want    []slot.PeerID
	}{
		"four strangers of seven":        {[]float64{-.5, -.5, -.5, .5, .5, .52, .48}, 3, nil},
		"one stranger of four":           {[]float64{.5, .48, .52, -.5}, 3, []slot.PeerID{"d"}},
		"all have a vote":                {[]float64{-.5, -.5, -.5, .5, .5, .52, .48}, 7, []slot.PeerID{"a", "b", "c"}},
		"two founders say nothing":       {[]float64{-.5, .5, .5, .52, .48}, 2, []slot.PeerID{"a"}},
		"a voter that is the only one":   {[]float64{-.5, .5, .5, .52, .48}, 5, []slot.PeerID{"a"}},
		"most newcomers are honest, too": {[]float64{.5, .5, .52, .48, .5, -.5, .51}, 3, []slot.PeerID{"f"}},
	} {
		tr := NewTracker("self")
		var peers []slot.PeerID
		for i := range c.cosines {
			peers = append(peers, slot.PeerID(rune('a'+i)))
		}
		for s := range uint64(10) {
			tr.Begin(s+1, peers)
			var of []Contribution
			for i, v := range c.cosines {
				of = append(of, Contribution{Peer: peers[i], Cosine: v, Newcomer: i >= c.voters, Ratio: 1})
			}
			tr.Add(s+1, of)
		}
		var got []slot.PeerID
		for _, f := range tr.Findings() {
			got = append(got, f.Peer)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: opposite are %s, want %s", name, got, c.want)
		}
	}
}

// An owner that publishes nothing three times in a row is named, until it publishes again; one that
// is no member any more is forgotten, with what was found of it.
func TestUnpublished(t *testing.T) {
	tr := NewTracker("self")
	say := func(slotNumber uint64, published, begins, ends bool) {
		t.Helper()
		got := tr.Published(slotNumber, "owner", published)
		if (len(got) == 1 && got[0].Begins) != begins || (len(got) == 1 && !got[0].Begins) != ends {
			t.Errorf("slot %d: %+v", slotNumber, got)
		}
	}
	say(1, false, false, false)
	say(2, true, false, false)
	say(3, false, false, false)
	say(4, false, false, false)
	say(5, false, true, false)
	say(6, false, false, false)
	say(7, true, false, true)
	for s := range uint64(3) {
		tr.Published(8+s, "owner", false)
	}
	if f := tr.Findings(); len(f) != 1 || f[0].Kind != Unpublished || f[0].Since != 10 {
		t.Fatalf("found is %+v", f)
	}
	if got := tr.Begin(11, []slot.PeerID{"self"}); len(got) != 1 || got[0].Begins || len(tr.Members()) != 0 {
		t.Errorf("after it has left: %+v, %+v", got, tr.Members())
	}
}

// A member that turns round is named after as many contributions as the window has; one whose
// contributions come to rest little by little, before those of the others do, never is.
func TestTurningRound(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(slotNumber uint64) float64
		from uint64 // slot in which it is named; 0: never
	}{
		"at once":          {func(s uint64) float64 { return [2]float64{.15, -.26}[btoi(s > 4)] }, 9},
		"from the start":   {func(uint64) float64 { return -.26 }, 5},
		"little by little": {func(s uint64) float64 { return max(-.5, .15-.05*float64(s)) }, 0},
		"there and back":   {func(s uint64) float64 { return [2]float64{.15, -.5}[btoi(s%5 > 0)] }, 0},
		"like the others":  {func(uint64) float64 { return .12 }, 0},
	} {
		tr, got := NewTracker("self"), uint64(0)
		peers := []slot.PeerID{"a", "b", "c", "d", "e", "f", "g", "h"}
		for s := range uint64(20) {
			tr.Begin(s+1, peers)
			of := []Contribution{{Peer: "a", Cosine: c.of(s + 1), Ratio: 1}}
			for i, p := range peers[1:] {
				of = append(of, Contribution{Peer: p, Cosine: .11 + .01*float64(i), Ratio: 1})
			}
			for _, change := range tr.Add(s+1, of) {
				if change.Peer != "a" || change.Kind != Opposite {
					t.Errorf("%s: %+v", name, change)
				} else if got == 0 {
					got = s + 1
				}
			}
		}
		if got != c.from {
			t.Errorf("%s: named in slot %d, want %d", name, got, c.from)
		}
	}
}

// Where owners mark a member, little that the others have in common is enough; where they do not,
// or where it has come to that little by little, it is not.
func TestMarkedMembers(t *testing.T) {
	for name, c := range map[string]struct {
		marked func(slotNumber uint64) bool
		before float64 // its cosine before slot 6
		others float64
		from   uint64 // slot in which it is named; 0: never
	}{
		"marked":             {func(s uint64) bool { return s > 5 }, .2, .05, 8},
		"not marked":         {func(uint64) bool { return false }, .2, .05, 0},
		"now and then":       {func(s uint64) bool { return s%3 > 0 }, .2, .05, 0},
		"little by little":   {func(s uint64) bool { return s > 5 }, .02, .05, 0},
		"nothing in common":  {func(s uint64) bool { return s > 5 }, .2, .01, 0},
		"others against it":  {func(s uint64) bool { return s > 5 }, .2, -.05, 0},
		"marked, and common": {func(s uint64) bool { return s > 5 }, .2, .15, 8},
	} {
		tr, got := NewTracker("self"), uint64(0)
		peers := []slot.PeerID{"a", "b", "c", "d", "e", "f", "g", "h"}
		for s := uint64(1); s < 9; s++ {
			tr.Begin(s, peers)
			cosine := [2]float64{c.before, -.15}[btoi(s > 5)]
			of := []Contribution{{Peer: "a", Cosine: cosine, Ratio: 1, Marked: c.marked(s)}}
			for i, p := range peers[1:] {
				of = append(of, Contribution{Peer: p, Cosine: c.others + .001*float64(i), Ratio: 1})
			}
			for _, change := range tr.Add(s, of) {
				if change.Peer != "a" || change.Kind != Opposite {
					t.Errorf("%s: %+v", name, change)
				} else if got == 0 {
					got = s
				}
			}
		}
		if got != c.from {
			t.Errorf("%s: named in slot %d, want %d", name, got, c.from)
		}
	}
}

// Two of six that send the opposite leave the other four nothing in common with the outcome. Where
// they are newcomers that owners have marked ever since they came, they are named all the same.
func TestMarkedNewcomers(t *testing.T) {
	// as measured beside four founders, in rounds of 10 steps
	voters := [4][]float64{
		{.01, .04, -.05, .01, .1}, {-.1, .03, -.03, .02, .03}, {.09, -.03, .05, -.1, .05}, {.05, -.07, .02, .16, -.1},
	}
	newcomer, like := []float64{-.08, -.28, -.48, -.37, -.43}, []float64{-.02, -.06, -.03, -.1, -.05}
	for name, c := range map[string]struct {
		marked, newcomer bool
		first            bool    // its first contribution is marked, too
		like             bool    // it points about as far away as others do now and then
		others           float64 // added to the cosines of the others
		from             uint64  // slot in which it is named; 0: never
	}{
		"marked since it came":   {true, true, true, false, 0, 5},
		"not marked":             {false, true, true, false, 0, 0},
		"not marked at first":    {true, true, false, false, 0, 0},
		"with a vote":            {true, false, true, false, 0, 0},
		"others against it, too": {true, true, true, false, -.25, 0},
		"hardly against":         {true, true, true, true, .1, 0},
	} {
		tr, got := NewTracker("self"), uint64(0)
		for s := range uint64(5) {
			tr.Begin(s+1, []slot.PeerID{"a", "b", "c", "d", "e", "f"})
			var of []Contribution
			for i, v := range voters {
				of = append(of, Contribution{Peer: slot.PeerID(rune('a' + i)), Cosine: v[s] + c.others, Ratio: 1})
			}
			cosine := newcomer[s]
			if c.like {
				cosine = like[s]
			}
			for _, peer := range []slot.PeerID{"e", "f"} {
				of = append(of, Contribution{
					Peer: peer, Cosine: cosine, Ratio: 1, Newcomer: c.newcomer, Marked: c.marked && (c.first || s > 0),
				})
			}
			for _, change := range tr.Add(s+1, of) {
				if change.Peer < "e" || change.Kind != Opposite {
					t.Errorf("%s: %+v", name, change)
				} else if got == 0 {
					got = s + 1
				}
			}
		}
		if got != c.from {
			t.Errorf("%s: named in slot %d, want %d", name, got, c.from)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
