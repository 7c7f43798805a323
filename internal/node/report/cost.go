package report

import (
	"strconv"
	"time"
)

// Cost is what slots take at one peer of time and of bytes, beside what data-parallel training
// takes, which exchanges all gradients at each step.
type Cost struct {
	Slots    uint64        // applied
	Steps    uint64        // inner steps of this peer in them
	Training time.Duration // in inner steps
	Sync     time.Duration // that the trainer stood still meanwhile
	Share    float64       // of Sync in both, from 0 to 1
	Sent     uint64        // bytes, for whatever
	Parallel uint64        // bytes that each of as many peers sends in data-parallel training
	Left     time.Duration // to the last slot, if all are like these; 0: unknown
}

// CostSince returns what was spent since another moment of the peer; the zero Status is its start.
func (s Status) CostSince(before Status) Cost {
	c := Cost{
		Slots:    s.Stats.Applied - before.Stats.Applied,
		Training: s.Training - before.Training, Sync: s.Stall - before.Stall, Sent: s.Sent - before.Sent,
	}
	inner, _ := strconv.ParseUint(s.Spec["inner_steps"], 10, 64)
	fragments, _ := strconv.ParseUint(s.Spec["fragments"], 10, 64)
	c.Steps = (s.Stats.Contributions - before.Stats.Contributions) * inner / max(fragments, 1)
	took := c.Training + c.Sync
	if took > 0 {
		c.Share = c.Sync.Seconds() / took.Seconds()
	} else { // a peer without a trainer
		took = s.Uptime - before.Uptime
	}
	if n := uint64(s.Contributors); n > 1 { // a ring: each sends all but its own part, twice
		c.Parallel = c.Steps * 4 * s.Parameters * 2 * (n - 1) / n
	}
	if c.Slots > 0 && s.LastSlot > s.Slot {
		c.Left = took * time.Duration(s.LastSlot-s.Slot) / time.Duration(c.Slots)
	}
	return c
}
