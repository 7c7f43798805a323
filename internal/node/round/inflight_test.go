package round

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// A contribution that the ledger has not taken yet has not fallen, whatever happened to the state
// meanwhile: the round would end before its slot, and be trained twice.
func TestAnOfferFallsOnceItWasTaken(t *testing.T) {
	o := offered{slot: 6, root: slot.Root{1}, before: 2}
	ours := &slot.Offer{Root: o.root}
	for _, c := range []struct {
		name   string
		view   membership.View
		fallen bool
	}{
		{"not taken yet", membership.View{Synced: true, IsMember: true, Reported: 2}, false},
		{"it stands", membership.View{Synced: true, IsMember: true, Reported: 3, OwnOffer: ours}, false},
		{"it waits for this peer to be a member", membership.View{Synced: true, Reported: 3}, false},
		{"the state is being fetched", membership.View{IsMember: true, Reported: 3}, false},
		{"taken, and it stands no more", membership.View{Synced: true, IsMember: true, Reported: 3}, true},
	} {
		if got := o.fallen(c.view); got != c.fallen {
			t.Errorf("%s: fallen %v", c.name, got)
		}
	}
}
