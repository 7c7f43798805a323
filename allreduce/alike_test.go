package allreduce

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// alikeOf compares contributions, a letter each: how much it has of what all share, beside noise of
// its own. One that copies noise has that of the contribution before it.
func alikeOf(voices string, rng *rand.Rand) *Alike {
	// honest cosines of good ones are .08
	shares := map[rune]float32{'g': .3, 'f': -.3, 'c': -.3, 'G': 9, 'F': -9, 'L': -99, '-': 0}
	a := NewAlike(len(voices))
	for range 4 {
		common, noise := noiseOf(rng), []float32(nil)
		var part [][]float32
		for _, v := range voices {
			if v != 'c' {
				noise = noiseOf(rng)
			}
			x := make([]float32, partElements)
			for i := range x {
				x[i] = shares[v]*common[i] + noise[i]
			}
			part = append(part, x)
		}
		a.Add(part)
	}
	return a
}

func noiseOf(rng *rand.Rand) []float32 {
	x := make([]float32, partElements)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// marksOf has an x for each contribution that is marked.
func marksOf(a *Alike, n int, judges ...int) string {
	marks, against := []byte(strings.Repeat(".", n)), a.Against(judges)
	for i := range marks {
		if against.Has(i) {
			marks[i] = 'x'
		}
	}
	return string(marks)
}

func TestAgainstMarksWhatPointsTheOtherWay(t *testing.T) {
	for name, c := range map[string]struct {
		voices string
		judges []int
		want   string
	}{
		"all point the same way":     {"gggg", []int{0, 1, 2}, "...."},
		"a stranger flips":           {"gggf", []int{0, 1, 2}, "...x"},
		"more strangers than judges": {"fgfggff", []int{1, 3, 4}, "x.x..xx"},
		"a judge flips":              {"gggf", []int{0, 1, 2, 3}, "...x"},
		"too few judges":             {"gggf", []int{0, 1}, "...."},
		"nobody judges":              {"gggf", nil, "...."},
		"much is shared":             {"GGGF", []int{0, 1, 2}, "...x"},
		"a long opposite":            {"gggL", []int{0, 1, 2}, "...x"},
		"a judge copies its noise":   {"ggggc", []int{0, 1, 2, 3}, "....x"},
		"half of the judges flip":    {"ggff", []int{0, 1, 2, 3}, "...."},
	} {
		for seed := range uint64(5) {
			a := alikeOf(c.voices, rand.New(rand.NewPCG(seed, 1)))
			if got := marksOf(a, len(c.voices), c.judges...); got != c.want {
				t.Errorf("%s, seed %d: %s are marked, want %s", name, seed, got, c.want)
				break
			}
		}
	}
}

// Where honest values have nothing in common, an honest one is marked in some pieces, as it would
// be by throwing a coin, but never most of the judges.
func TestAgainstWhereNothingIsShared(t *testing.T) {
	var marked [8]int
	for seed := range uint64(60) {
		got := marksOf(alikeOf("--------", rand.New(rand.NewPCG(seed, 2))), 8, 0, 1, 2, 3, 4)
		if strings.Count(got[:5], "x") > 2 {
			t.Fatalf("seed %d: most of the 5 judges are marked: %s", seed, got)
		}
		for i := range marked {
			marked[i] += strings.Count(got[i:i+1], "x")
		}
	}
	for i, n := range marked {
		if n > 30 {
			t.Errorf("contribution %d is marked in %d of 60 pieces", i, n)
		}
	}
}

// Honest newcomers earn a vote, whatever data each of them has: nobody marks them while the run has
// somewhere to go, and in all, with the time at rest, fewer are marked than not, so that they earn
// more credit than they lose. Each descends a quadratic of its own: where its loss is least lies so
// far from the others', in units of what all have to go. Where noise is far longer than what all
// share, marks are by chance from the start.
func TestHonestNewcomersAreSeldomMarked(t *testing.T) {
	const peers, slots, seeds = 8, 60, 3
	for _, c := range []struct {
		apart, noise float32
		early        int // slots in which what all have to go is longer than noise
	}{
		{0, .05, 20}, {.3, .05, 20}, {1, .05, 10}, {3, .05, 5}, {0, .5, 0}, {1, .5, 0},
	} {
		early, marked := 0, 0
		for seed := range uint64(seeds) {
			descend(seed, peers, slots, c.apart, c.noise, func(s int, a *Alike) {
				marks := strings.Count(marksOf(a, peers, 0, 1, 2, 3, 4)[5:], "x")
				if marked += marks; s < c.early {
					early += marks
				}
			})
		}
		if given := seeds * slots * 3; early > 0 || 3*marked > given {
			t.Errorf("%+v: %d of %d are marked, %d of these early", c, marked, given, early)
		}
	}
}

// descend does the slots of a run, and says of each how the contributions lie to each other.
func descend(seed uint64, peers, slots int, apart, noise float32, slot func(s int, a *Alike)) {
	rng := rand.New(rand.NewPCG(seed, 3))
	common, anchor, velocity := noiseOf(rng), make([]float32, partElements), make([]float32, partElements)
	var centers [][]float32
	for range peers {
		center := noiseOf(rng)
		for j := range center {
			center[j] = common[j] + apart*center[j]
		}
		centers = append(centers, center)
	}
	for s := range slots {
		part, sum, a := make([][]float32, peers), make([]float32, partElements), NewAlike(peers)
		for i, center := range centers {
			part[i] = noiseOf(rng)
			for j, c := range center {
				part[i][j] = .03*(anchor[j]-c) + noise*part[i][j]
				sum[j] += part[i][j]
			}
		}
		a.Add(part)
		slot(s, a)
		for j := range anchor {
			mean := sum[j] / float32(peers)
			velocity[j] = .6*velocity[j] + mean
			anchor[j] -= .7 * (mean + .6*velocity[j])
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
	// A piece of any size is compared in some part, and no more is compared than costs little.
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
