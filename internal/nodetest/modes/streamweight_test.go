package modes

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// What a slot's end has cut short is in the live parameters all the same, and in the weight of what
// is contributed next.
func TestStepsCutShortInTheStreamWeigh(t *testing.T) {
	inStream(t, 3, 3, 3, func(s *nodetest.Swarm) {
		p := s.Peers[1]
		l := &counted{streamer: streamerOf(p)}
		l.until = make(map[uint64]uint64)
		p.Trainer = l
		weights := make(map[uint64]uint64) // of its contributions, by slot
		noted := p.OnEvent
		p.OnEvent = func(e p2pdiloco.Event) {
			noted(e)
			if e.Name == "slot.committed" {
				record, _ := p.Ledger().Record(e.Fields["height"].(uint64))
				for _, o := range record.Record.Contributions {
					if o.Peer == s.ID(p) {
						weights[record.Record.Slot] = o.Weight
					}
				}
			}
		}
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(p); slices.Contains(got, 6) || !s.ContributedAfter(p, 6) {
			t.Errorf("it contributed to slots %v, want no 6", got)
		}
		// Each of these is for a fragment that landed in time the round before: it weighs what was
		// trained since that border, slot 6 included.
		compared := 0
		for slotNumber := uint64(7); slotNumber <= 9; slotNumber++ {
			weight, listed := weights[slotNumber]
			want := l.until[slotNumber] - l.until[slotNumber-s.Spec.Fragments]
			if compared++; !listed {
				compared--
			} else if weight != want {
				t.Errorf("slot %d: the contribution weighs %d tokens, %d were trained", slotNumber, weight, want)
			}
		}
		if compared == 0 {
			t.Errorf("no weight was compared: %v", weights)
		}
	})
}

// counted is a streamer that says of a round cut short what it did, as builtin:gpt does, and is
// slow in slot 6.
type counted struct {
	*streamer
	trained uint64            // tokens
	until   map[uint64]uint64 // of them to the end of a slot's inner steps
}

func (c *counted) Train(ctx context.Context, task p2pdiloco.Task) (stats p2pdiloco.Stats, err error) {
	for range task.Steps {
		if c.Pace = 10 * time.Millisecond; task.Slot == 6 {
			c.Pace = 2 * time.Second // the grace window is 5 s
		}
		if _, err = c.Bowl.Train(ctx, p2pdiloco.Task{Slot: task.Slot, Steps: 1}); err != nil {
			return stats, err
		}
		stats.Steps++
		stats.Tokens += c.tokens
		c.trained += c.tokens
		c.until[task.Slot] = c.trained
	}
	return stats, nil
}
