package peer

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
)

// maxRecent bounds the events that are kept for the API, in bytes.
const maxRecent = 256 << 10

// ofEverySlot are events that would leave no room for the others.
var ofEverySlot = []string{
	"slot.planned", "record.drafted", "record.proposed", "record.certified", "slot.committed", "slot.applied",
	"slot.stats", "slot.figures", "trainer.stats", "members.changed", "vote.progress",
}

// recent keeps the newest events for the API.
type recent struct {
	mu struct {
		sync.Mutex
		lines []json.RawMessage
		bytes int    // of lines
		next  uint64 // how many there were in all
	}
}

func (r *recent) add(e p2pdiloco.Event) {
	line, err := json.Marshal(e)
	if err != nil || len(line) > maxRecent || slices.Contains(ofEverySlot, e.Name) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.lines, r.mu.bytes, r.mu.next = append(r.mu.lines, line), r.mu.bytes+len(line), r.mu.next+1
	for ; r.mu.bytes > maxRecent; r.mu.lines = r.mu.lines[1:] {
		r.mu.bytes -= len(r.mu.lines[0])
	}
}

// list returns the events that came after so many, as far as they are kept. A caller that counts
// those of an earlier process gets all.
func (r *recent) list(seen uint64) api.Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.mu.next - uint64(len(r.mu.lines))
	if seen > r.mu.next || seen < first {
		seen = first
	}
	return api.Recent{Next: r.mu.next, Events: slices.Clone(r.mu.lines[seen-first:])}
}
