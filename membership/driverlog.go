package membership

import (
	"log/slog"
	"math/bits"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// blame counts bad messages by the peer that they came from. It logs the first, second, fourth,
// eighth and so on of each peer, so that a flood does not fill the log. A flood under many names
// does not fill it either: after blameLines lines, one line is written for every blameLines bad
// messages.
type blame struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		by           map[slot.PeerID]uint64
		total, lines uint64
	}
}

const blameLines = 128

func newBlame(log *slog.Logger) *blame {
	b := &blame{log: log}
	b.mu.by = map[slot.PeerID]uint64{}
	return b
}

func (b *blame) count(from slot.PeerID) (n uint64, log bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.total++
	if _, known := b.mu.by[from]; !known && len(b.mu.by) >= inboxPeers {
		clear(b.mu.by) // counts of long ago; the total stays
	}
	b.mu.by[from]++
	n = b.mu.by[from]
	if bits.OnesCount64(n) != 1 || b.mu.lines >= blameLines+b.mu.total/blameLines {
		return n, false
	}
	b.mu.lines++
	return n, true
}

// bad takes note of bytes that are no message of this run.
func (b *blame) bad(from slot.PeerID, err error) {
	if n, log := b.count(from); log {
		b.log.Warn("bad ledger message", "from", from, "count", n, "error", err)
	}
}

// refused takes note of a message that the machine refused. Honest peers send such messages when
// they lag, so this is no warning.
func (b *blame) refused(via slot.PeerID, m wire.Message, err error) {
	b.log.Debug("ledger message refused", "from", m.From, "via", via, "type", wire.TypeName(m.Body.Type()), "error",
		err)
}

// clone takes note of a message that another process has signed with this peer's key.
func (b *blame) clone(via slot.PeerID, inc slot.Incarnation) {
	if n, log := b.count(via); log {
		b.log.Warn("a message signed with this peer's own key comes from another vote log: either another process "+
			"uses a copy of the identity file (stop it), or this peer lost its log not long ago",
			"via", via, "incarnation", inc, "count", n)
	}
}
