package builtin

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

func TestPermutationIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 3000).Draw(t, "n")
		_, keys := epochWords(rapid.Uint64().Draw(t, "seed"), 0)
		p := newPermutation(n, keys)
		seen := make([]bool, n)
		for x := range n {
			y := p.apply(x)
			if y >= n || seen[y] {
				t.Fatalf("of %d: %d gives %d, again or beyond the end", n, x, y)
			}
			seen[y] = true
		}
	})
}

// drawn is what a task trains on: where each sequence begins.
func drawn(c *Corpus, task trainer.Task, batch, length int) (at []uint64) {
	s := newSampler(c, task, batch, length)
	for range task.Steps {
		place := (s.task.Part*uint64(s.task.PartSteps) + s.step%uint64(s.task.PartSteps)) * s.batch
		for i := range uint64(batch) {
			at = append(at, s.window(place+i))
		}
		s.step++
	}
	return at
}

// An epoch's parts have each window once, and every byte but a few is in one; the next epoch has
// other windows in another order.
func TestPartsCoverTheTextOncePerEpoch(t *testing.T) {
	const length, batch, steps = 7, 3, 5
	c := &Corpus{train: make([]byte, 7*(3*5*10+1))} // ten parts an epoch
	epochs := [2][]uint64{}
	for part := range uint64(20) {
		at := drawn(c, trainer.Task{Seed: 9, Part: part, Steps: steps, PartSteps: steps}, batch, length)
		epochs[part/10] = append(epochs[part/10], at...)
	}
	for e, at := range epochs {
		sorted := slices.Sorted(slices.Values(at))
		for i, begin := range sorted {
			if i > 0 && begin != sorted[i-1]+length {
				t.Fatalf("epoch %d: a window at %d follows one at %d", e, begin, sorted[i-1])
			}
		}
		if sorted[0] >= length || len(sorted) != 150 {
			t.Errorf("epoch %d: %d windows from %d on", e, len(sorted), sorted[0])
		}
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Error("both epochs have one order")
	}
	if other := drawn(c, trainer.Task{Seed: 8, Steps: steps, PartSteps: steps}, batch, length); slices.Equal(other,
		epochs[0][:15]) {
		t.Error("another seed gives the same order")
	}
}

// A round in pieces is the round: what was done before is not drawn again. Beyond the part's end it
// begins again.
func TestATaskGoesOnWhereItsPartIs(t *testing.T) {
	c := testCorpus()
	whole := drawn(c, trainer.Task{Part: 3, Steps: 10, PartSteps: 10}, 2, 16)
	first := drawn(c, trainer.Task{Part: 3, Steps: 4, PartSteps: 10}, 2, 16)
	rest := drawn(c, trainer.Task{Part: 3, Steps: 8, PartSteps: 10, Done: 4}, 2, 16)
	if !slices.Equal(whole, append(first, rest[:12]...)) || !slices.Equal(rest[12:], whole[:4]) {
		t.Errorf("in pieces %v and %v, in one %v", first, rest, whole)
	}
}

func TestDrawnTargetsFollowTheirInputs(t *testing.T) {
	c := &Corpus{train: make([]byte, 97)}
	for i := range c.train {
		c.train[i] = byte(i)
	}
	s := newSampler(c, trainer.Task{Seed: 1, Steps: 50}, 2, 5)
	for range 50 {
		var b batch
		s.draw(&b)
		for i, v := range b.inputs {
			if b.targets[i] != v+1 {
				t.Fatalf("%d is followed by %d", v, b.targets[i])
			}
		}
		if len(b.inputs) != 10 || len(b.targets) != 10 {
			t.Fatalf("%d inputs and %d targets", len(b.inputs), len(b.targets))
		}
	}
}

// Without data assignments in its tasks, a trainer still draws other data for every slot and
// member.
func TestTasksWithoutParts(t *testing.T) {
	c, seen := testCorpus(), map[uint64]bool{}
	for slot := range uint64(3) {
		for _, self := range []trainer.PeerID{"a", "b"} {
			for _, at := range drawn(c, task(slot+1, self, 5), 2, 16) {
				if seen[at] {
					t.Errorf("slot %d: the window at %d is drawn again", slot+1, at)
				}
				seen[at] = true
			}
		}
	}
}

// The Python package has the same permutation, and its tests the same numbers.
func TestPermutationGolden(t *testing.T) {
	_, keys := epochWords(3, 5)
	p := newPermutation(100, keys)
	var got []uint64
	for x := range uint64(8) {
		got = append(got, p.apply(x))
	}
	if want := []uint64{37, 30, 81, 86, 52, 53, 15, 16}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
