package allreduce

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// voice is a contribution of a part: it has so much of what all share, and noise of its own.
// One with a companion has the companion's noise.
type voice struct {
	shares    float64
	companion int // its place and one; 0: it has none
}

func alikeOf(voices []voice, rng *rand.Rand) *Alike {
	a := NewAlike(len(voices))
	for range 4 {
		common, noise := make([]float32, partElements), make([][]float32, len(voices))
		for i := range common {
			common[i] = float32(rng.NormFloat64())
		}
		part := make([][]float32, len(voices))
		for v, voice := range voices {
			noise[v], part[v] = make([]float32, partElements), make([]float32, partElements)
			for i := range common {
				noise[v][i] = float32(rng.NormFloat64())
			}
			own := noise[v]
			if voice.companion > 0 {
				own = noise[voice.companion-1]
			}
			for i := range common {
				part[v][i] = float32(voice.shares)*common[i] + own[i]
			}
		}
		a.Add(part)
	}
	return a
}

func TestAgainstMarksWhatPointsTheOtherWay(t *testing.T) {
	const good, flipped = .3, -.3 // honest cosines are .08
	for name, c := range map[string]struct {
		voices []voice
		judges []int
		want   slot.Bitmap
	}{
		"all point the same way": {[]voice{{good, 0}, {good, 0}, {good, 0}, {good, 0}}, []int{0, 1, 2}, nil},
		"a stranger flips": {
			[]voice{{good, 0}, {good, 0}, {good, 0}, {flipped, 0}}, []int{0, 1, 2}, slot.Bitmap{8},
		},
		"more strangers than judges": {
			[]voice{{flipped, 0}, {good, 0}, {flipped, 0}, {good, 0}, {good, 0}, {flipped, 0}, {flipped, 0}},
			[]int{1, 3, 4},
			slot.Bitmap{0b1100101},
		},
		"a judge flips":   {[]voice{{good, 0}, {good, 0}, {good, 0}, {flipped, 0}}, []int{0, 1, 2, 3}, slot.Bitmap{8}},
		"too few judges":  {[]voice{{good, 0}, {good, 0}, {good, 0}, {flipped, 0}}, []int{0, 1}, nil},
		"nobody judges":   {[]voice{{good, 0}, {good, 0}, {good, 0}, {flipped, 0}}, nil, nil},
		"much is shared":  {[]voice{{9, 0}, {9, 0}, {9, 0}, {-9, 0}}, []int{0, 1, 2}, slot.Bitmap{8}},
		"a long opposite": {[]voice{{good, 0}, {good, 0}, {good, 0}, {-99, 0}}, []int{0, 1, 2}, slot.Bitmap{8}},
		"a lying judge that shares noise with a stranger": {
			[]voice{{good, 0}, {good, 0}, {good, 0}, {good, 0}, {flipped, 4}}, []int{0, 1, 2, 3}, slot.Bitmap{16},
		},
		"half of the judges flip": {
			[]voice{{good, 0}, {good, 0}, {flipped, 0}, {flipped, 0}}, []int{0, 1, 2, 3}, nil,
		},
	} {
		for seed := range uint64(5) {
			a := alikeOf(c.voices, rand.New(rand.NewPCG(seed, 1)))
			if got := a.Against(c.judges); string(got) != string(c.want) {
				t.Errorf("%s, seed %d: %08b are marked, want %08b", name, seed, got, c.want)
				break
			}
		}
	}
}

// Where honest values have nothing in common, an honest one is marked in some pieces, as it would
// be by throwing a coin, but never most of the judges.
func TestAgainstWhereNothingIsShared(t *testing.T) {
	marked := make([]int, 8)
	for seed := range uint64(60) {
		voices := make([]voice, 8)
		got := alikeOf(voices, rand.New(rand.NewPCG(seed, 2))).Against([]int{0, 1, 2, 3, 4})
		judges := 0
		for i := range voices {
			if got.Has(i) {
				marked[i]++
				if i < 5 {
					judges++
				}
			}
		}
		if judges > 2 {
			t.Fatalf("seed %d: %d of 5 judges are marked", seed, judges)
		}
	}
	for i, n := range marked {
		if n > 30 {
			t.Errorf("contribution %d is marked in %d of 60 pieces", i, n)
		}
	}
}

func TestCosine(t *testing.T) {
	a := NewAlike(3)
	a.Add([][]float32{{1, 0}, {1, 1}, {0, 0}})
	a.Add([][]float32{{1, 0}, {-1, 0}, {0, 0}})
	if got, want := a.Cosine(1, 0), (math.Sqrt2/2-1)/2; math.Abs(got-want) > 1e-9 || got != a.Cosine(0, 1) {
		t.Errorf("a mean cosine of %v, want %v", got, want)
	}
	if got := a.Cosine(2, 0); got != 0 {
		t.Errorf("a cosine of %v to zeros", got)
	}
	if got := (Alike{}).Against([]int{0, 1, 2}); got != nil {
		t.Errorf("nothing is known, and %v are marked", got)
	}
}

// A piece of any size is compared in some part, and no more is compared than costs little.
func TestHowMuchIsCompared(t *testing.T) {
	for _, elements := range []int{1, partElements, 1 << 20, 1 << 28} {
		for _, n := range []int{1, 2, 8, 128} {
			parts := (elements + partElements - 1) / partElements
			compared := (parts + alikeStride(elements, n) - 1) / alikeStride(elements, n)
			if compared < 1 || compared*partElements > 2*max(alikeElements, partElements) {
				t.Errorf("%d elements of %d: %d parts are compared", elements, n, compared)
			}
		}
	}
}
