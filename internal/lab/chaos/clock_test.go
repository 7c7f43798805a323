package chaos

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// TestAFastClockIsNamed: it is a fault if doctor does not say so, or if the newcomer founds a run.
func TestAFastClockIsNamed(t *testing.T) {
	const named = "this machine's clock is 1h30m0s ahead of those of the others"
	for _, c := range []struct {
		name    string
		said    string
		founded bool
		odd     int
	}{
		{"doctor says so", named, false, 0},
		{"it says that all is well", "0s off those of the others", false, 1},
		{"as behind", "this machine's clock is 1h30m0s behind those of the others", false, 1},
		{"it founds a run", named, true, 1},
	} {
		r := paper(2)
		if p := r.nodes[1]; c.founded {
			p.heard = []eventlog.Line{{Event: "run.founded"}}
		}
		if r.checkClock(&fault{victims: r.nodes[1:]}, c.said); len(r.odd) != c.odd {
			t.Errorf("%s: %q", c.name, r.odd)
		}
	}
}
