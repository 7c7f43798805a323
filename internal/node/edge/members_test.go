package edge

import (
	"strconv"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The members seen are bounded, and those that were added last are always among them.
func TestMembersAreBounded(t *testing.T) {
	l := NewLedger(LedgerConfig{})
	if l.WasMember("0") {
		t.Error("somebody was a member before anybody was")
	}
	for i := range 2*maxMembers + 1 {
		p := slot.PeerID(strconv.Itoa(i))
		if l.AddMembers(p); !l.WasMember(p) {
			t.Fatalf("%s is missing", p)
		}
	}
	if n := l.members.Len(); n > maxMembers {
		t.Errorf("%d peers are kept", n)
	}
}
