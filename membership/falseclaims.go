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

func (do *doubts) has(p slot.PeerID) bool {
	if len(do.peers) > 0 && do.now-do.since > doubtFor*do.cfg.Timing.Retry {
		do.peers = nil
	}
	return slices.Contains(do.peers, p)
}
