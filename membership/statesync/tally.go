package statesync

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// tally is the report of a fetch while it runs. Only the goroutine that runs the fetch uses it.
type tally struct {
	Report
	cfg   Config
	began time.Time
}

func newTally(cfg Config) *tally {
	return &tally{Report: Report{Sources: map[slot.PeerID]int64{}}, cfg: cfg, began: time.Now()}
}

// end returns the report of a fetch that is over.
func (t *tally) end() Report {
	t.Elapsed = time.Since(t.began)
	return t.Report
}

// bad tells whether a peer was dropped.
func (t *tally) bad(p slot.PeerID) bool {
	return slices.ContainsFunc(t.Bad, func(b Bad) bool { return b.Peer == p })
}

// drop notes a donor that this fetch does not ask again.
func (t *tally) drop(b Bad) {
	if t.bad(b.Peer) {
		return
	}
	t.cfg.Logger.Warn("dropped a donor", "peer", b.Peer, "reason", b.Reason, "lied", b.Lied)
	t.Bad = append(t.Bad, b)
	if t.cfg.OnDrop != nil {
		t.cfg.OnDrop(b)
	}
}

// noDonor is the error that no donor is left. It names the dropped ones and the reasons.
func (t *tally) noDonor(what string) error {
	var why []string
	for _, b := range t.Bad {
		why = append(why, fmt.Sprintf("%s %s", b.Peer.Short(), b.Reason))
	}
	if why == nil {
		why = []string{"no peer that answers holds it"}
	}
	return fmt.Errorf("%w: %s (%s)", ErrNoDonor, what, strings.Join(why, "; "))
}
