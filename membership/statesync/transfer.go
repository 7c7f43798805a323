package statesync

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Bad is a donor that was dropped.
type Bad struct {
	Peer   slot.PeerID `json:"peer"`
	Reason string      `json:"reason"` // plain words
	// Lied is true if the donor sent bytes that are not what it was asked for. Otherwise it was
	// slow, busy or unreachable.
	Lied bool `json:"-"`
}

// Report says where the bytes of a fetch came from.
type Report struct {
	Bytes   int64                 // on the wire, for the pieces that were used
	Decoded int64                 // the size of those pieces
	Resumed int64                 // bytes of the state that an earlier fetch had left
	Sources map[slot.PeerID]int64 // Bytes by donor
	Bad     []Bad                 // in the order in which they were dropped
	Elapsed time.Duration
}

// transfer is one fetch of a client: which peers it may ask, and its report. Only the goroutine
// that runs the fetch uses it.
type transfer struct {
	*Client
	Report
	from  func() []slot.PeerID // peers that may hold what is wanted; the list may grow
	began time.Time
	order map[slot.PeerID]uint64 // in which peers are asked; random
	// how often a peer did not give what it had said that it holds
	broken map[slot.PeerID]int
}

func (c *Client) begin(from func() []slot.PeerID) *transfer {
	return &transfer{
		Client: c, Report: Report{Sources: map[slot.PeerID]int64{}}, from: from, began: time.Now(),
		order: map[slot.PeerID]uint64{}, broken: map[slot.PeerID]int{},
	}
}

// end returns the report of a fetch that is over.
func (f *transfer) end() Report {
	f.Elapsed = time.Since(f.began)
	return f.Report
}

// candidates lists the peers that may be asked, in an order that is random for each fetch: no peer
// can choose an ID that puts it before others.
func (f *transfer) candidates() (ps []slot.PeerID) {
	for _, p := range f.from() {
		if f.bad(p) {
			continue
		}
		if _, known := f.order[p]; !known {
			f.order[p] = f.cfg.Rand()
		}
		ps = append(ps, p)
	}
	slices.SortStableFunc(ps, func(a, b slot.PeerID) int { return cmp.Compare(f.order[a], f.order[b]) })
	return ps
}

// disappoint notes that a peer did not give what it had said that it holds. That can happen to an
// honest peer once: its file may have been pruned or found corrupt since. From then on its word
// counts only where no other peer holds anything. After the second time the peer is dropped.
func (f *transfer) disappoint(p slot.PeerID, how string) {
	if f.broken[p]++; f.broken[p] >= maxStrikes {
		f.drop(Bad{Peer: p, Reason: how})
	}
}

// bad tells whether a peer was dropped.
func (f *transfer) bad(p slot.PeerID) bool {
	return slices.ContainsFunc(f.Bad, func(b Bad) bool { return b.Peer == p })
}

// drop notes a donor that this fetch does not ask again.
func (f *transfer) drop(b Bad) {
	if f.bad(b.Peer) {
		return
	}
	f.cfg.Logger.Warn("dropped a donor", "peer", b.Peer, "reason", b.Reason, "lied", b.Lied)
	f.Bad = append(f.Bad, b)
	if f.cfg.OnDrop != nil {
		f.cfg.OnDrop(b)
	}
}

// noDonor is the error that no donor is left. It names the dropped ones and the reasons.
func (f *transfer) noDonor(what string) error {
	var why []string
	for _, b := range f.Bad {
		why = append(why, fmt.Sprintf("%s %s", b.Peer.Short(), b.Reason))
	}
	if why == nil {
		why = []string{"no peer that answers holds it"}
	}
	return fmt.Errorf("%w: %s (%s)", ErrNoDonor, what, strings.Join(why, "; "))
}
