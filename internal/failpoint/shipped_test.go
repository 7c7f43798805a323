package failpoint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestNothingIsShipped: without the tag no program has the code that takes orders, and with it both
// have.
func TestNothingIsShipped(t *testing.T) {
	const takes = "github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
	for _, c := range []struct {
		tags, program string
		want          bool
	}{
		{"", "p2pdiloco", false},
		{"failpoints", "p2pdiloco", true},
		{"failpoints", "p2plab", true},
	} {
		out, err := exec.Command("go", "list", "-deps", "-tags", c.tags, "../../cmd/"+c.program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(strings.Fields(string(out)), takes); got != c.want {
			t.Errorf("%s with tags %q takes orders to fail: %v", c.program, c.tags, got)
		}
	}
}

// TestPlacesDiffer: an order names one place.
func TestPlacesDiffer(t *testing.T) {
	all := Places()
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("two places have one name: %v", all)
	}
}
