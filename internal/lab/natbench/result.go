package natbench

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
)

// Result is what was measured: the document that bench nat --json prints.
type Result struct {
	Delay       float64 `json:"delay_seconds"`   // one way between two public hosts
	Rate        int64   `json:"bits_per_second"` // of every link, each way; 0: no limit
	Preset      string  `json:"preset"`
	Limit       float64 `json:"limit_seconds"` // for a pair to connect
	Pairs       []Pair  `json:"pairs"`
	Four        *Four   `json:"four"` // null: not measured
	WallSeconds float64 `json:"wall_seconds"`
}

// Pair is how two peers reached each other.
type Pair struct {
	A         nat.Kind `json:"a"`
	B         nat.Kind `json:"b"`
	Connected bool     `json:"connected"`
	First     Way      `json:"first"` // how they reached each other at first
	Last      Way      `json:"last"`  // and in the end
	// until both had applied the first slot, with equal roots; 0: they did not
	Slot  float64 `json:"slot_seconds"`
	Error string  `json:"error,omitempty"`
}

// Way is how a peer is reached, and since when.
type Way struct {
	Name      string  `json:"way"` // direct, punched or relayed
	Transport string  `json:"transport,omitempty"`
	Seconds   float64 `json:"seconds"` // since both peers were started
}

// Four is the result of the four peers.
type Four struct {
	Parameters uint64   `json:"parameters"`
	Peers      []string `json:"peers"` // kinds
	Ways       []Pair   `json:"ways"`  // of each pair, before the first step
	Steps      []Step   `json:"steps"`
	Error      string   `json:"error,omitempty"` // why steps are missing
}

// Step is one slot, and its disturbance.
type Step struct {
	What         string  `json:"what"`
	Slot         uint64  `json:"slot"`
	First        float64 `json:"first_seconds"` // from the slot's begin until a peer had applied it
	All          float64 `json:"all_seconds"`   // until all held it, or a later one
	Contributors int     `json:"contributors"`
	Equal        bool    `json:"equal_roots"` // of all that applied it
	Note         string  `json:"note,omitempty"`
	Error        string  `json:"error,omitempty"`
}

// OK says whether every pair was connected and every step ended as it should.
func (r Result) OK() bool {
	for _, p := range r.Pairs {
		if !p.Connected || p.Slot == 0 {
			return false
		}
	}
	if r.Four == nil {
		return true
	}
	for _, s := range r.Four.Steps {
		if s.Error != "" || !s.Equal {
			return false
		}
	}
	return r.Four.Error == ""
}

// since is the seconds between two times.
func since(began, at time.Time) float64 { return at.Sub(began).Seconds() }
