package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// doubts remembers peers that made false claims.
type doubts struct {
	*facts
	*effects
	peers []slot.PeerID // the newest last
	since time.Duration // when the first of them was added
	long  []longDoubt   // those of peers that cost much time, the newest last
}

// longDoubt is about a peer that is passed over until a time.
type longDoubt struct {
	peer  slot.PeerID
	until time.Duration
}

// These bound how many peers with false claims are passed over, and for how many Timing.Retry since
// the first of them.
const (
	maxDoubted = 16
	doubtFor   = 32
)

// add passes over a peer whose chain did not arrive, is not valid or is not what the peer
// claimed. Claims of other peers are then looked at before its next one. An event names it once for
// that time.
func (do *doubts) add(p slot.PeerID, why Reason, detail string) {
	if do.has(p) {
		return
	}
	if len(do.peers) == 0 {
		do.since = do.now
	}
	do.peers = append(do.peers, p)
	do.peers = do.peers[max(0, len(do.peers)-maxDoubted):]
	do.reportPeer(EventRefused, why, p, detail)
}

// addLong passes over a peer for at least as long as it took to see that its claim is false.
func (do *doubts) addLong(p slot.PeerID, why Reason, detail string, took time.Duration) {
	do.add(p, why, detail)
	do.long = append(do.long, longDoubt{p, do.now + took})
	do.long = do.long[max(0, len(do.long)-maxDoubted):]
}

func (do *doubts) has(p slot.PeerID) bool {
	if slices.ContainsFunc(do.long, func(d longDoubt) bool { return d.peer == p && do.now < d.until }) {
		return true
	}
	if len(do.peers) > 0 && do.now-do.since > doubtFor*do.cfg.Timing.Retry {
		do.peers = nil
	}
	return slices.Contains(do.peers, p)
}
