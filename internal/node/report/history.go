package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// SlotMetrics is what a peer measured from one applied slot to the next: a line of its metrics
// file. What is not known is nil.
type SlotMetrics struct {
	Time      time.Time `json:"time"` // when the slot was applied here
	Slot      uint64    `json:"slot"`
	Height    uint64    `json:"height"` // of the newest record
	StateRoot slot.Root `json:"state_root"`

	Loss        *float64 `json:"loss,omitempty"`          // training, mean over the newest round
	HeldOut     *float64 `json:"held_out_loss,omitempty"` // the newest measured
	HeldOutSlot uint64   `json:"held_out_slot,omitempty"` // of the anchor that it was measured on

	// or samples: behind this peer's contributions since the line before, behind all contributions
	// to this slot, and, up to the caps on weights, behind all of the run
	Tokens          uint64   `json:"tokens"`
	SlotTokens      uint64   `json:"slot_tokens"`
	RunTokens       uint64   `json:"run_tokens"`
	TokensPerSecond *float64 `json:"tokens_per_second,omitempty"` // of Tokens in Seconds

	Members      int `json:"members"`
	Contributors int `json:"contributors"`

	// Since the line before, or the start of the process. Training is the time in inner steps,
	// stalled the time that the trainer stood still and waited for others.
	Seconds         float64  `json:"seconds"`
	TrainingSeconds float64  `json:"training_seconds"`
	StalledSeconds  float64  `json:"stalled_seconds"`
	StalledShare    *float64 `json:"stalled_share,omitempty"` // of both
	StepSeconds     *float64 `json:"step_seconds,omitempty"`  // of one inner step, the newest known
	BytesSent       uint64   `json:"bytes_sent"`
	BytesReceived   uint64   `json:"bytes_received"`

	Norm    float64  `json:"norm"`               // of the outcome
	OwnNorm *float64 `json:"own_norm,omitempty"` // of this peer's pseudo-gradient
	Cosine  *float64 `json:"cosine,omitempty"`   // of the angle between the two
}

// SlotMetricsSince puts together what was measured since another moment of the peer; the zero
// Status is its start. work is that of the newest record.
func (s Status) SlotMetricsSince(before Status, work uint64, now time.Time) SlotMetrics {
	m := SlotMetrics{
		Time: now.UTC(), Slot: s.Slot, Height: s.Height, StateRoot: s.StateRoot,
		Loss: s.Stats.TrainLoss, HeldOut: s.Stats.Loss, HeldOutSlot: s.Stats.LossSlot,
		Tokens: s.Stats.Tokens - before.Stats.Tokens, SlotTokens: s.Stats.Weight, RunTokens: work,
		Members: len(s.Members), Contributors: s.Stats.Contributors,
		Seconds:         (s.Uptime - before.Uptime).Seconds(),
		TrainingSeconds: (s.Training - before.Training).Seconds(), StalledSeconds: (s.Stall - before.Stall).Seconds(),
		BytesSent: s.Sent - before.Sent, BytesReceived: s.Received - before.Received,
		Norm: s.Stats.Norm, OwnNorm: s.Stats.OwnNorm, Cosine: s.Stats.Cosine,
	}
	if busy := m.TrainingSeconds + m.StalledSeconds; busy > 0 {
		m.StalledShare = finite(m.StalledSeconds / busy)
	}
	if m.Tokens > 0 && m.Seconds > 0 {
		m.TokensPerSecond = finite(float64(m.Tokens) / m.Seconds)
	}
	for _, member := range s.Members {
		if c := member.Contribution; member.Self && c != nil && c.StepTime > 0 {
			m.StepSeconds = finite(c.StepTime.Seconds())
		}
	}
	return m
}

// Bounds of a metrics file. One that has come to either is thinned to at most three quarters.
const (
	historyLines = 10_000
	historyBytes = 8 << 20
)

// History keeps a peer's SlotMetrics in a file, a line of JSON for each slot. The newest half of
// its lines is whole; of the older ones each second goes when the file is full, so that the oldest
// are ever further apart. It is for one goroutine.
type History struct {
	fs    disk.FS
	path  string
	file  *eventlog.Writer // nil: it is not open
	lines int
	bytes int
}

// NewHistory makes a history. It opens its file with the first line.
func NewHistory(fsys disk.FS, path string) *History { return &History{fs: fsys, path: path} }

// Add appends a line. After an error the line is missing in the file, and the next one is tried
// again.
func (h *History) Add(m SlotMetrics) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if h.file == nil {
		if err := h.open(); err != nil {
			return err
		}
	}
	if h.lines >= historyLines || h.bytes+len(line) >= historyBytes {
		if err := h.thin(); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	if err := h.file.Line(line); err != nil { // which takes the file for one of events
		return fmt.Errorf("metrics: %w", errors.Unwrap(err))
	}
	h.lines, h.bytes = h.lines+1, h.bytes+len(line)+1
	return nil
}

// open opens the file, and counts what is in it.
func (h *History) open() (err error) {
	if h.file, err = eventlog.Create(h.path, eventlog.Rotation{}); err != nil {
		return fmt.Errorf("metrics: %w", errors.Unwrap(err))
	}
	h.lines, h.bytes = 0, 0
	return eachLine(h.path, func(line []byte) { h.lines, h.bytes = h.lines+1, h.bytes+len(line)+1 })
}

// thin leaves out each second line of the older half, and what is damaged. Until the new file is
// whole and durable, the old one stays.
func (h *History) thin() error {
	var all [][]byte
	err := eachLine(h.path, func(line []byte) {
		if json.Valid(line) {
			all = append(all, bytes.Clone(line))
		}
	})
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	lines := 0
	for i, line := range all {
		if i >= len(all)/2 || i%2 == 0 {
			lines++
			kept.Write(append(line, '\n'))
		}
	}
	if err := disk.Replace(h.fs, h.path, kept.Bytes()); err != nil {
		return err
	}
	h.lines, h.bytes = lines, kept.Len()
	old := h.file
	h.file, err = eventlog.Create(h.path, eventlog.Rotation{})
	return errors.Join(err, old.Close())
}

// Close closes the file.
func (h *History) Close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

// ReadHistory reads a metrics file, oldest line first, where a peer may be writing it. It leaves
// out what cannot be read, such as a line that was cut off. A missing file is an empty one.
func ReadHistory(path string) (all []SlotMetrics, err error) {
	err = eachLine(path, func(line []byte) {
		var m SlotMetrics
		if json.Unmarshal(line, &m) == nil {
			all = append(all, m)
		}
	})
	return all, err
}

func eachLine(path string, f func(line []byte)) error {
	lines := eventlog.Follow(path)
	return errors.Join(lines.Next(f), lines.Close())
}
