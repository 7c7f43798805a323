package edge

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// fallbackPause bounds how often one message is gossiped. When a peer cannot be reached, all
// messages that wait for it are given up at the same moment, repeats of one message included.
const fallbackPause = 100 * time.Millisecond

// fallback decides which of the messages that could not be sent directly are gossiped. One message
// for many peers is gossiped once. A message that is sent to the same peer again is a repeat of
// what was not answered, and is gossiped again: signatures are deterministic, so the repeat has the
// same bytes, and the first one may have come at a time when it was of no use.
type fallback struct {
	last     slot.Root // the hash of the message that was gossiped last
	at       time.Time // when
	gossiped map[slot.PeerID]struct{}
}

// due says whether a message for a peer must be gossiped now, and takes note of it.
func (f *fallback) due(to slot.PeerID, message []byte, now time.Time) bool {
	h := slot.Hash(message)
	_, repeated := f.gossiped[to]
	if h == f.last && (!repeated || now.Sub(f.at) < fallbackPause) {
		f.gossiped[to] = struct{}{}
		return false
	}
	f.last, f.at = h, now
	f.gossiped = map[slot.PeerID]struct{}{to: {}}
	return true
}
