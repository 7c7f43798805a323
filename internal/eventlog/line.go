package eventlog

import (
	"encoding/json"
	"fmt"
	"time"
)

// Line is an event as it stands in a file, with the fields that readers here use. Fields that an
// event does not have are zero.
type Line struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	Peer      string    `json:"peer"`
	PID       int       `json:"pid"`
	PeerID    string    `json:"peer_id"`
	API       string    `json:"api"`
	Metrics   string    `json:"metrics"`
	RunID     string    `json:"run_id"`
	Slot      uint64    `json:"slot"`
	StateRoot string    `json:"state_root"`
	Round     uint64    `json:"round"`
	Loss      float64   `json:"loss"` // held-out, nats per token
	Tokens    uint64    `json:"tokens"`
	Weight    uint64    `json:"weight"`  // of a slot: all tokens or samples of its contributions
	EndsAs    string    `json:"ends_as"` // of the end of a run: run, provisional or branch
	Detail    string    `json:"detail"`
	Finding   string    `json:"finding"` // of a member that stands out
	Reason    string    `json:"reason"`  // in a word

	// Of plans, drafts, proposals and certified records.
	Height        uint64   `json:"height"`
	Kind          string   `json:"kind"` // of a record: fork, step or members
	Ballot        uint32   `json:"ballot"`
	Owners        int      `json:"owners"` // of a plan: peers that reduce a part
	Record        string   `json:"record"` // hash
	Prev          string   `json:"prev"`   // hash of the record before it
	CertifiedRoot string   `json:"certified_root"`
	Electors      int      `json:"electors"` // that decide after the record
	Members       []string `json:"members"`
	// to a committed slot their list, in statistics their number
	Contributors json.RawMessage `json:"contributors"`
	About        string          `json:"about"`
	Addrs        []string        `json:"addrs"`
}

// Parse reads one line. Unknown fields are ignored.
func Parse(b []byte) (Line, error) {
	var l Line
	if err := json.Unmarshal(b, &l); err != nil {
		return Line{}, fmt.Errorf("event %.80q: %w", b, err)
	}
	if l.Event == "" {
		return Line{}, fmt.Errorf("event %.80q has no name", b)
	}
	return l, nil
}
