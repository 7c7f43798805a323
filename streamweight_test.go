package p2pdiloco

import (
	"context"
	"slices"
	"testing"
	"time"
)

// What a slot's end has cut short is in the live parameters all the same, and in the weight of what is contributed next.
func TestStepsCutShortInTheStreamWeigh(t *testing.T) {
	inStream(t, 3, 3, 3, func(s *swarm) {
		p := s.peers[1]
		l := &counted{streamer: streamerOf(p)}
		weighed := uint64(0)
		l.held = func() uint64 {
			n := p.node.Load()
			weighed = n.landing.tokens
			return n.held
		}
		p.trainer = l
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		if got := s.contributions(p); slices.Contains(got, 6) || !s.contributedAfter(p, 6) {
			t.Errorf("it contributed to slots %v, want no 6", got)
		}
		if weighed != l.trained {
			t.Errorf("%d tokens weigh, of %d that were trained", weighed, l.trained)
		}
	})
}

// counted is a streamer that says of a round cut short what it did, as builtin:gpt does, and is slow in slot 6.
type counted struct {
	*streamer
	trained uint64 // tokens
}

func (c *counted) Train(ctx context.Context, task Task) (stats Stats, err error) {
	for range task.Steps {
		if c.pace = 10 * time.Millisecond; task.Slot == 6 {
			c.pace = 2 * time.Second // the grace window is 5 s
		}
		if _, err = c.bowl.Train(ctx, Task{Slot: task.Slot, Steps: 1}); err != nil {
			return stats, err
		}
		stats.Steps++
		stats.Tokens += c.tokens
		c.trained += c.tokens
	}
	return stats, nil
}
