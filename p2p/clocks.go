package p2p

import (
	"context"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	maxClocks = 1024 // of other peers that are remembered
	// MaxSkew is how far two clocks may differ before it matters to people: logs do not fit
	// together, and tickets expire early or late.
	MaxSkew = time.Minute

	clocksEvery   = 2 * time.Second // between looks for a clock to read
	clockAgain    = time.Minute     // until a clock that was off is read again
	clocksAtOnce  = 4               // read in one look
	clockPatience = 5 * time.Second // for one peer to tell its time
)

// clocks are the clocks of other peers, by what these say in hellos, and where that is not enough,
// in probes without bytes.
type clocks struct {
	now  func() time.Time // of day
	read *lru.Cache[peer.ID, reading]
}

// reading is a look at another peer's clock.
type reading struct {
	offset time.Duration // against ours; greater: it is ahead
	known  bool          // false: it did not say
	next   time.Time     // it is not asked before
}

func newClocks() *clocks {
	read, _ := lru.New[peer.ID, reading](maxClocks) // fails for a size of 0
	return &clocks{now: failpoint.Now, read: read}
}

// note takes in what a peer's clock said when ours said at. The zero time says nothing.
func (c *clocks) note(id peer.ID, theirs, at time.Time) {
	if !theirs.IsZero() {
		c.read.Add(id, reading{theirs.Round(0).Sub(at.Round(0)), true, time.Now().Add(clockAgain)})
	}
}

// Clocks are the clocks of the peers that have told their time, against this machine's; greater: a
// clock is ahead. Anybody may tell any time: once members (Protect) have told theirs, only they and
// bootstrap nodes count.
func (n *Network) Clocks() map[slot.PeerID]time.Duration {
	all, ours := make(map[slot.PeerID]time.Duration), make(map[slot.PeerID]time.Duration)
	nodes, members := n.discovery.Nodes(), 0
	for _, id := range n.clocks.read.Keys() {
		r, ok := n.clocks.read.Peek(id)
		if !ok || !r.known {
			continue
		}
		all[slot.PeerID(id)] = r.offset
		member := n.env.Members.Has(id)
		if member {
			members++
		}
		if member || slices.ContainsFunc(nodes, func(node peer.AddrInfo) bool { return node.ID == id }) {
			ours[slot.PeerID(id)] = r.offset
		}
	}
	if members > 0 {
		return ours
	}
	return all
}

// readClocks asks bootstrap nodes for their time, which may be in no run and so say no hello, and
// peers whose clocks were off: somebody may have set one right.
func (n *Network) readClocks(now time.Time) {
	var ids []peer.ID
	for _, node := range n.discovery.Nodes() {
		if !n.clocks.read.Contains(node.ID) {
			ids = append(ids, node.ID)
		}
	}
	for _, id := range n.clocks.read.Keys() {
		r, ok := n.clocks.read.Peek(id)
		if ok && now.After(r.next) && (!r.known || r.offset.Abs() > MaxSkew) {
			ids = append(ids, id)
		}
	}
	asked := 0
	for _, id := range ids {
		if asked == clocksAtOnce {
			break
		}
		if n.env.Connected(id) {
			n.readClock(id)
			asked++
		}
	}
}

func (n *Network) readClock(id peer.ID) {
	ctx, cancel := context.WithTimeout(n.env.Tasks.Context(), clockPatience)
	defer cancel()
	before, known := n.clocks.read.Peek(id)
	before.next = time.Now().Add(clockAgain)
	if p, err := n.Probe(ctx, slot.PeerID(id), 0); err == nil {
		before.offset, before.known = p.Offset, true
	} else {
		n.env.Log.Debug("a peer does not tell its time", "peer", id, "known", known, "err", err)
	}
	n.clocks.read.Add(id, before)
}
