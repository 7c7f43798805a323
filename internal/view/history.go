package view

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// MaxPoints bounds a history: where there are more slots, each second one of the older half goes.
const MaxPoints = 4096

// Point is a slot in a history. What is nil was not measured.
type Point struct {
	Slot      uint64
	Time      time.Time
	Tokens    uint64 // or samples until then: of all, or, without a metrics file, of this peer
	Loss      *float64
	TrainLoss *float64
	Norm      *float64 // of what all contributed
	version   uint64
}

// MarshalJSON makes a row of it: slot, Unix time, tokens, loss, training loss, norm.
func (p Point) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.Slot, p.Time.Unix(), p.Tokens, p.Loss, p.TrainLoss, p.Norm})
}

// history is what became of the slots, the oldest first.
type history struct {
	points  []Point
	version uint64 // of the newest change
	filed   bool   // it is that of a metrics file
}

// takeLine adds a line of the peer's metrics file.
func (h *history) takeLine(line []byte) {
	var m p2pdiloco.SlotMetrics
	if json.Unmarshal(line, &m) != nil || m.Slot == 0 {
		return // it was cut off
	}
	h.filed = true
	h.put(Point{Slot: m.Slot, Time: m.Time, Tokens: m.RunTokens, TrainLoss: m.Loss, Norm: &m.Norm})
	if m.HeldOut != nil {
		h.put(Point{Slot: m.HeldOutSlot, Time: m.Time, Tokens: m.RunTokens, Loss: m.HeldOut})
	}
}

// addStatus adds what a status says, of a peer whose metrics file is not read. The held-out loss is
// often that of an earlier slot. The training loss is of the newest round, which is that of the
// newest slot only just after it was applied.
func (h *history) addStatus(s p2pdiloco.Status) {
	if h.filed || s.RunID.IsZero() || s.Stats.Slot == 0 {
		h.takeLoss(s.Stats)
		return
	}
	p := Point{Slot: s.Stats.Slot, Time: time.Now(), Tokens: s.Stats.Tokens}
	if s.Stats.Norm > 0 {
		p.Norm = &s.Stats.Norm
	}
	if n := len(h.points); n > 0 && h.points[n-1].Slot < p.Slot {
		p.TrainLoss = s.Stats.TrainLoss
	}
	h.put(p)
	if s.Stats.Loss != nil {
		h.put(Point{Slot: s.Stats.LossSlot, Time: p.Time, Tokens: p.Tokens, Loss: s.Stats.Loss})
	}
}

// takeLoss adds a held-out loss, which may be measured after the slot has its line.
func (h *history) takeLoss(s p2pdiloco.StatsStatus) {
	known := func(p Point) bool { return p.Slot == s.LossSlot }
	if s.Loss != nil && slices.ContainsFunc(h.points, known) {
		h.put(Point{Slot: s.LossSlot, Loss: s.Loss})
	}
}

// put adds what is new about a slot.
func (h *history) put(p Point) {
	at, known := slices.BinarySearchFunc(h.points, p.Slot, func(q Point, slot uint64) int {
		return int(int64(q.Slot) - int64(slot))
	})
	if !known {
		h.points = slices.Insert(h.points, at, p)
	}
	now := &h.points[at]
	changed := !known
	for _, value := range []struct{ to, from **float64 }{
		{&now.Loss, &p.Loss}, {&now.TrainLoss, &p.TrainLoss}, {&now.Norm, &p.Norm},
	} {
		if *value.from != nil && (*value.to == nil || **value.to != **value.from) {
			*value.to, changed = *value.from, true
		}
	}
	if changed {
		h.version++
		now.version = h.version
	}
	if len(h.points) > MaxPoints {
		h.thin()
	}
}

// thin halves the older half.
func (h *history) thin() {
	half, kept := len(h.points)/2, h.points[:0]
	for i, p := range h.points {
		if i >= half || i%2 == 0 {
			kept = append(kept, p)
		}
	}
	h.points = kept
}

// listChanged returns the points that have changed after a version.
func (h *history) listChanged(version uint64) (some []Point) {
	for _, p := range h.points {
		if p.version > version {
			some = append(some, p)
		}
	}
	return some
}
