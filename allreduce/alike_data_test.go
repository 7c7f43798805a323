package allreduce

import (
	"math/rand/v2"
	"testing"
)

// descents is a run of honest peers, each of which descends a quadratic of its own: where its loss
// is least lies so far from the others', in units of what all have to go.
type descents struct {
	rng              *rand.Rand
	centers          [][]float32
	anchor, velocity []float32
	curve, noise     float32
}

func newDescents(seed uint64, peers int, apart, curve, noise float32) *descents {
	d := &descents{
		rng: rand.New(rand.NewPCG(seed, 3)), anchor: make([]float32, partElements),
		velocity: make([]float32, partElements), curve: curve, noise: noise,
	}
	common := make([]float32, partElements)
	for j := range common {
		common[j] = float32(d.rng.NormFloat64())
	}
	for range peers {
		center := make([]float32, partElements)
		for j, c := range common {
			center[j] = c + apart*float32(d.rng.NormFloat64())
		}
		d.centers = append(d.centers, center)
	}
	return d
}

// slot does one slot, and returns how the contributions lie to each other.
func (d *descents) slot() *Alike {
	n := len(d.centers)
	part, a := make([][]float32, n), NewAlike(n)
	for i, center := range d.centers {
		part[i] = make([]float32, partElements)
		for j, c := range center {
			part[i][j] = d.curve*(d.anchor[j]-c) + d.noise*float32(d.rng.NormFloat64())
		}
	}
	a.Add(part)
	for j := range d.anchor {
		sum := float32(0)
		for _, x := range part {
			sum += x[j]
		}
		mean := sum / float32(n)
		d.velocity[j] = .6*d.velocity[j] + mean
		d.anchor[j] -= .7 * (mean + .6*d.velocity[j])
	}
	return a
}

// Honest newcomers earn a vote, whatever data each of them has: nobody marks them while the run has
// somewhere to go, and in all, with the time at rest, fewer are marked than not, so that they earn
// more credit than they lose. Where noise is far longer than what all share, marks are by chance
// from the start.
func TestHonestNewcomersAreSeldomMarked(t *testing.T) {
	const peers, slots, seeds = 8, 60, 3
	judges := []int{0, 1, 2, 3, 4}
	for _, c := range []struct {
		apart, noise float32
		early        int // slots in which what all have to go is longer than noise
	}{
		{0, .05, 20}, {.3, .05, 20}, {1, .05, 10}, {3, .05, 5}, {0, .5, 0}, {1, .5, 0},
	} {
		early, marked, given := 0, 0, 0
		for seed := range uint64(seeds) {
			d := newDescents(seed, peers, c.apart, .03, c.noise)
			for s := range slots {
				marks := d.slot().Against(judges)
				for i := len(judges); i < peers; i++ {
					given++
					if marks.Has(i) {
						marked++
						if s < c.early {
							early++
						}
					}
				}
			}
		}
		t.Logf("apart %v, noise %v: %d of %d are marked", c.apart, c.noise, marked, given)
		if early > 0 || 3*marked > given {
			t.Errorf("apart %v, noise %v: %d of %d are marked, %d of these early", c.apart, c.noise, marked, given,
				early)
		}
	}
}
