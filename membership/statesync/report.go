package statesync

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Bad is a donor that was dropped.
type Bad struct {
	Peer   slot.PeerID
	Reason string // plain words
	// Lied is true if the donor sent bytes that are not what it was asked for. Otherwise it was
	// slow, busy or unreachable.
	Lied bool
}

// Report says where the bytes of a fetch came from.
type Report struct {
	Bytes   int64                 // on the wire, for the pieces that were used
	Decoded int64                 // the size of those pieces
	Resumed int64                 // bytes of the state that an earlier fetch had left on disk
	Sources map[slot.PeerID]int64 // Bytes by donor
	Bad     []Bad                 // in the order in which they were dropped
	Elapsed time.Duration
}

// String is for logs: bytes and donors.
func (r Report) String() string {
	parts := []string{fmt.Sprintf("%d bytes in %v", r.Bytes, r.Elapsed.Round(time.Millisecond))}
	for _, p := range slices.Sorted(maps.Keys(r.Sources)) {
		parts = append(parts, fmt.Sprintf("%d from %s", r.Sources[p], p.Short()))
	}
	return strings.Join(parts, ", ")
}
