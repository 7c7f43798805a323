package testutil_test

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func TestChoose(t *testing.T) {
	t.Setenv("P2PDILOCO_TEST", "nightly")
	if got := testutil.Choose(1, 2, 3); got != 3 || !testutil.Nightly() {
		t.Errorf("at night %d is chosen", got)
	}
	t.Setenv("P2PDILOCO_TEST", "")
	want := 2
	if testing.Short() {
		want = 1
	}
	if got := testutil.Choose(1, 2, 3); got != want || testutil.Nightly() {
		t.Errorf("%d is chosen, not %d", got, want)
	}
}

// TestRandom: without the name in the seed, tests that differ in their mode alone would try the
// same moments; without the variable, every night would try those of the night before.
func TestRandom(t *testing.T) {
	draw := func(t *testing.T) [4]uint64 {
		r := testutil.Random(t)
		return [4]uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
	}
	seen := map[[4]uint64]string{}
	for _, name := range []string{"eager", "async"} {
		t.Run(name, func(t *testing.T) {
			for _, seed := range []string{"", "1", "2"} {
				t.Setenv(testutil.SeedVariable, seed)
				first := draw(t)
				if before := seen[first]; before != "" || draw(t) != first {
					t.Errorf("seed %q: the numbers are those of %q, or are not the same again", seed, before)
				}
				seen[first] = t.Name() + " with seed " + seed
			}
		})
	}
}
