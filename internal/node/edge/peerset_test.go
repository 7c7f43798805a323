package edge

import (
	"strconv"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The set is bounded, and those that were added last are always in it.
func TestPeerSetIsBounded(t *testing.T) {
	var s peerSet
	if s.has("0") {
		t.Error("the empty set has a peer")
	}
	for i := range 2*maxPeerSet + 1 {
		p := slot.PeerID(strconv.Itoa(i))
		if s.add([]slot.PeerID{p}); !s.has(p) {
			t.Fatalf("%s is missing", p)
		}
	}
	if n := len(s.mu.peers); n > maxPeerSet {
		t.Errorf("%d peers are kept", n)
	}
}
