package cli

import (
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// collector listens to a node's events. Its methods may be called from any goroutine.
type collector struct {
	mu struct {
		sync.Mutex
		applied uint64
		tokens  uint64
		dir     string // the data directory
		first   *float64
		last    *float64
		ending  p2pdiloco.Phase // how the run has ended here; empty: it has not
	}
}

// observe takes one event.
func (c *collector) observe(e p2pdiloco.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Name {
	case "peer.started":
		c.mu.dir, _ = e.Fields["data_dir"].(string)
	case "slot.applied":
		c.mu.applied++
	case "run.final":
		as, _ := e.Fields["ends_as"].(string)
		c.mu.ending = phases[as]
	case "run.switched": // what has ended was given up
		c.mu.ending = ""
	case "trainer.stats":
		if tokens, ok := e.Fields["tokens"].(uint64); ok {
			c.mu.tokens += tokens
		}
		if loss, ok := e.Fields["loss"].(float64); ok {
			if c.mu.first == nil {
				c.mu.first = &loss
			}
			c.mu.last = &loss
		}
	}
}

// dataDir is where the peer keeps what it has.
func (c *collector) dataDir() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.dir
}

// phases are those at the end of a run, by the field ends_as of run.final.
var phases = map[string]p2pdiloco.Phase{
	membership.EndsAsRun.String():       p2pdiloco.PhaseEnded,
	membership.EndsProvisional.String(): p2pdiloco.PhaseEndedProvisional,
}

// latestPhase returns a phase, or that at the end of the run where this has come since.
func (c *collector) latestPhase(p p2pdiloco.Phase) p2pdiloco.Phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ending == "" || ended(p) {
		return p
	}
	return c.mu.ending
}

// statusLeft is what a report says of a peer that ended before the run did.
const statusLeft = "left"

// sumUp completes a node's last status.
func (c *collector) sumUp(s p2pdiloco.Status, wall time.Duration) eventlog.Peer {
	status := statusLeft
	if ended(s.Phase) {
		status = string(s.Phase)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return eventlog.Peer{
		Run: s.Run, RunID: s.RunID.String(), PeerID: s.Peer.String(), Parameters: s.Parameters,
		Ended: s.Phase == p2pdiloco.PhaseEnded, Status: status,
		Slot: s.Slot, StateRoot: s.StateRoot.String(), RoundsApplied: c.mu.applied,
		LossFirst: c.mu.first, LossLast: c.mu.last, Tokens: c.mu.tokens,
		BytesSent: s.Sent, BytesReceived: s.Received, Training: s.Training.Seconds(), Stall: s.Stall.Seconds(),
		WallSeconds: wall.Seconds(),
	}
}

// ended says whether a phase is one of the ends of a run.
func ended(p p2pdiloco.Phase) bool {
	return slices.Contains([]p2pdiloco.Phase{
		p2pdiloco.PhaseEnded, p2pdiloco.PhaseEndedProvisional, p2pdiloco.PhaseEndedMissed,
	}, p)
}
