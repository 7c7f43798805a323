package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// quietTime is how long a peer that waits says nothing.
const quietTime = 9 * time.Second

// narrator says a line a slot, and what the peer waits for where nothing else is said.
type narrator struct {
	status  func() (p2pdiloco.Status, bool)
	trainer func() string // how far a trainer is that attaches
	tell    func(level uint64, line string)

	said  atomic.Int64  // when a line was told last, in nanoseconds since 1970
	slots chan struct{} // a slot is done here
	mu    struct {
		sync.Mutex
		last p2pdiloco.Status // when the newest line of a slot was told
	}
	fetches time.Time // since when a state is fetched; zero: none is. It belongs to run
}

// run narrates until ctx ends.
func (n *narrator) run(ctx context.Context) {
	tick := time.Tick(time.Second)
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.slots:
			n.slot()
		case now := <-tick:
			line := n.waits(now)
			if line != "" && now.Sub(time.Unix(0, n.said.Load())) >= quietTime {
				n.tell(wire.NoticeInfo, line)
			}
		}
	}
}

// slot tells how the newest slot went, where there is one since the last time.
func (n *narrator) slot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.status()
	if !ok || s.Slot == n.mu.last.Slot {
		return
	}
	n.tell(wire.NoticeInfo, slotLine(n.mu.last, s))
	n.mu.last = s
}

// slotLine says how the slots went between two statuses.
func slotLine(before, now p2pdiloco.Status) string {
	c := now.CostSince(before)
	f := fields{"slot": now.Slot, "last": now.LastSlot, "members": english.Plural(len(now.Members), "member", "")}
	part := func(name string, has bool, more fields) {
		if has {
			f[name] = message("slot/"+name, more)
		}
	}
	loss := now.Stats.TrainLoss
	if loss == nil || *loss == 0 {
		loss = now.Stats.Loss
	}
	if loss != nil {
		part("loss", true, fields{"loss": fmt.Sprintf("%.4g", *loss)})
	}
	part("work", c.Steps > 0, fields{
		"steps": c.Steps, "training": inWords(c.Training), "sync": inWords(c.Sync),
		"share": fmt.Sprintf("%.0f%%", 100*c.Share),
	})
	part("bytes", c.Parallel > 0, fields{
		"sent": humanize.Bytes(c.Sent), "parallel": humanize.Bytes(c.Parallel),
	})
	part("left", c.Left > 0, fields{"left": inWords(c.Left)})
	return message("slot", f)
}

// waits says what the peer waits for; empty: for nothing.
func (n *narrator) waits(now time.Time) string {
	s, ok := n.status()
	if !ok {
		return strings.TrimRight(message("waits/trainer", fields{"detail": n.trainer()}), ": ")
	}
	if s.Sync == nil {
		n.fetches = time.Time{}
	} else if n.fetches.IsZero() {
		n.fetches = now
	}
	if s.Sync != nil && now.After(n.fetches) {
		rate := float64(s.Sync.Bytes) / now.Sub(n.fetches).Seconds()
		s.Detail = fmt.Sprintf("%s, %s/s", s.Detail, humanize.Bytes(uint64(rate)))
	}
	return Waits(s)
}

// Waits says what a peer waits for; empty: for nothing.
func Waits(s p2pdiloco.Status) string {
	f := fields{"detail": s.Detail, "slot": s.Slot + 1}
	switch s.Phase {
	case p2pdiloco.PhaseJoining:
		if s.Sync == nil && s.Reason != "" {
			f["detail"] = s.Reason
		}
	case p2pdiloco.PhaseWaiting:
		f["members"], f["start_peers"] = english.Plural(len(s.Members), "member", ""), s.Spec["start_peers"]
		return message("waits/members", f)
	case p2pdiloco.PhasePaused:
		f["detail"] = s.Reason
	case p2pdiloco.PhaseRunning:
		return waitsForOthers(s, f)
	case p2pdiloco.PhaseSearching, p2pdiloco.PhaseEnded, p2pdiloco.PhaseEndedProvisional,
		p2pdiloco.PhaseEndedMissed, p2pdiloco.PhaseClosed:
	}
	if f["detail"] == "" {
		return ""
	}
	return message("waits", f)
}

// waitsForOthers says for whom a peer waits that has trained its part of a slot.
func waitsForOthers(s p2pdiloco.Status, f fields) string {
	var others []string
	offered := false
	for _, m := range s.Members {
		switch {
		case m.Self:
			offered = m.State == "offered"
		case m.State == "training" && m.Assigned > 0:
			others = append(others, fmt.Sprintf("%s (%d of %d steps)", called(m), m.Steps, m.Assigned))
		case m.State == "training" || m.State == "late" || m.State == "missing" || m.State == "mute":
			others = append(others, fmt.Sprintf("%s (%s)", called(m), m.State))
		}
	}
	switch {
	case !offered || s.Spec["mode"] != p2pdiloco.ModeSync:
		return ""
	case len(others) == 0:
		return message("waits/slot", f)
	}
	f["others"] = strings.Join(others, ", ")
	return message("waits/others", f)
}

// called is a member's short name, with the one that it says before it.
func called(m p2pdiloco.MemberStatus) string {
	if m.Says == nil || m.Says.Name == "" {
		return m.Peer.Short()
	}
	return m.Says.Name + " " + m.Peer.Short()
}

// inWords is a duration in the unit that fits it.
func inWords(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
