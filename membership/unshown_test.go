package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestUnshownForAWhile: a contribution of which nothing was to be had is left out for a while. A
// later offer of the same bytes is not left out: after a power cut of all peers none of them
// reaches the others at first, and each trains again what it had trained.
func TestUnshownForAWhile(t *testing.T) {
	root := slot.Root{1}
	d := &openHeight{holding: holding{unshown: map[slot.Root]unshown{root: {seq: 3, until: time.Minute}}}}
	for _, c := range []struct {
		offer slot.Offer
		now   time.Duration
		want  bool
	}{
		{slot.Offer{Root: root, Seq: 3}, time.Second, true},
		{slot.Offer{Root: root, Seq: 2}, time.Second, true},
		{slot.Offer{Root: root, Seq: 3}, time.Minute, false},
		{slot.Offer{Root: root, Seq: 4}, time.Second, false},
		{slot.Offer{Root: slot.Root{2}, Seq: 3}, time.Second, false},
	} {
		if got := d.isUnshown(c.offer, c.now); got != c.want || d.hides([]slot.Offer{c.offer}, c.now) != c.want {
			t.Errorf("offer %d at %v: unshown %v, want %v", c.offer.Seq, c.now, got, c.want)
		}
	}
}
