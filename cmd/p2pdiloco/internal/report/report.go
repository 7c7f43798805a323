// Package report is what a peer tells when its part in a run is over: Peer is the document that `join --json` prints and
// `demo` reads. A Collector gathers what only the events say.
package report

import (
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Peer sums up one peer's part in a run.
type Peer struct {
	Run           string   `json:"run"`
	RunID         string   `json:"run_id"`
	PeerID        string   `json:"peer_id"`
	Parameters    uint64   `json:"parameters"`
	Ended         bool     `json:"ended"` // whether the run's last slot was applied; false after an early leave
	Slot          uint64   `json:"slot"`  // newest applied
	StateRoot     string   `json:"state_root"`
	RoundsApplied uint64   `json:"rounds_applied"`
	LossFirst     *float64 `json:"loss_first"` // held-out, nats per token; null if never measured
	LossLast      *float64 `json:"loss_last"`
	Tokens        uint64   `json:"tokens"` // trained on here
	BytesSent     uint64   `json:"bytes_sent"`
	BytesReceived uint64   `json:"bytes_received"`
	Training      float64  `json:"training_seconds"` // spent in inner steps
	Stall         float64  `json:"stall_seconds"`    // that the trainer stood still and waited for others
	WallSeconds   float64  `json:"wall_seconds"`
}

// Collector listens to a node's events. Its methods may be called from any goroutine.
type Collector struct {
	mu struct {
		sync.Mutex
		applied uint64
		tokens  uint64
		first   *float64
		last    *float64
	}
}

// Observe takes one event.
func (c *Collector) Observe(e p2pdiloco.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Name {
	case "slot.applied":
		c.mu.applied++
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

// Report completes a node's last status.
func (c *Collector) Report(s p2pdiloco.Status, ended bool, wall time.Duration) Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Peer{
		Run: s.Run, RunID: s.RunID.String(), PeerID: s.Peer.String(), Parameters: s.Parameters,
		Ended: ended, Slot: s.Slot, StateRoot: s.StateRoot.String(), RoundsApplied: c.mu.applied,
		LossFirst: c.mu.first, LossLast: c.mu.last, Tokens: c.mu.tokens,
		BytesSent: s.Sent, BytesReceived: s.Received, Training: s.Training.Seconds(), Stall: s.Stall.Seconds(), WallSeconds: wall.Seconds(),
	}
}
