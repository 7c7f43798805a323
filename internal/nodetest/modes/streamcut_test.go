package modes

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// cutShort is a streamer whose first inner steps for slot 6 last until they are cut short. It notes
// the live parameters and the anchor before them and after.
type cutShort struct {
	divided
	peer          *nodetest.Peer
	before, after []float32 // live
	anchor        []float32 // after
}

func (c *cutShort) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	switch {
	case task.Slot == 6:
		c.before = slices.Clone(c.X)
		<-ctx.Done()
		return p2pdiloco.Stats{}, ctx.Err()
	case c.before != nil && c.after == nil:
		c.after, c.anchor = slices.Clone(c.X), make([]float32, len(c.X))
		c.peer.Inside().Anchor(func(x []float32) { copy(c.anchor, x) })
	}
	return c.divided.Train(ctx, task)
}

// Inner steps that are cut short while a slot is in flight: that slot had an offer from here and
// lands as ever, mixed with what is live; the one that closed without an offer overwrites its
// fragment. The first did so, too.
func TestWhatIsInFlightLandsMixedAfterACut(t *testing.T) {
	inStream(t, 3, 3, 3, func(s *nodetest.Swarm) {
		p := s.Peers[1]
		l := &cutShort{divided: p.Trainer.(divided), peer: p}
		p.Trainer = l
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(p); !slices.Contains(got, 5) || slices.Contains(got, 6) || l.after == nil {
			s.T.Fatalf("it contributed to slots %v, want 5 and no 6", got)
		}
		spec := s.Spec
		spec.Layout = l.Layout()
		spec = spec.Settled()
		for at, alpha := range map[uint64]float32{5: spec.Alpha(), 6: 0} {
			for _, r := range fragmentOf(spec, at).Ranges {
				want := make([]float32, r.Len())
				for j := range want {
					live, anchor := l.before[r.Begin:r.End][j], l.anchor[r.Begin:r.End][j]
					want[j] = float32(alpha*live) + float32((1-alpha)*anchor)
				}
				nodetest.SameVectors(s.T, "where a slot has landed", l.after[r.Begin:r.End], want)
			}
		}
	})
}
