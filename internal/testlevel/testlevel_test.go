package testlevel_test

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

func TestChoose(t *testing.T) {
	t.Setenv("P2PDILOCO_TEST", "nightly")
	if got := testlevel.Choose(1, 2, 3); got != 3 || !testlevel.Nightly() {
		t.Errorf("at night %d is chosen", got)
	}
	t.Setenv("P2PDILOCO_TEST", "")
	want := 2
	if testing.Short() {
		want = 1
	}
	if got := testlevel.Choose(1, 2, 3); got != want || testlevel.Nightly() {
		t.Errorf("%d is chosen, not %d", got, want)
	}
}
