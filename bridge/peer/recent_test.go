package peer

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

// The newest events are kept within a bound, and not those of every slot. Who has seen some gets
// the rest, and who counts those of an earlier process gets all.
func TestRecentEvents(t *testing.T) {
	var r recent
	text := strings.Repeat("x", maxRecent/10)
	for range 20 {
		r.add(p2pdiloco.Event{Name: "peer.left", Fields: map[string]any{"detail": text}})
		r.add(p2pdiloco.Event{Name: "slot.applied", Fields: map[string]any{"detail": text}})
	}
	r.add(p2pdiloco.Event{Name: "long", Fields: map[string]any{"detail": strings.Repeat("x", maxRecent)}})
	all := r.list(0)
	if n := len(all.Events); n != 9 || all.Next != 20 || r.mu.bytes > maxRecent {
		t.Errorf("%d events of %d, %d bytes", n, all.Next, r.mu.bytes)
	}
	for seen, want := range map[uint64]int{20: 0, 18: 2, 3: 9, 21: 9} {
		if got := len(r.list(seen).Events); got != want {
			t.Errorf("after %d: %d events, want %d", seen, got, want)
		}
	}
}
