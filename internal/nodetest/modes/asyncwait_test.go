package modes

import (
	"context"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// waitShare is how much of its time a peer in mode async may wait for others.
const waitShare = 1. / 20

// ahead is a trainer that notes which inner steps began before the slot before them was applied.
type ahead struct {
	*nodetest.Bowl
	peer  *nodetest.Peer
	steps map[uint64]bool // by the slot trained for
}

func (a *ahead) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	a.steps[task.Slot] = a.peer.Applied()+1 < task.Slot
	return a.Bowl.Train(ctx, task)
}

// In mode async inner steps begin with the others' part in them where a slot takes little of their
// time, and at once where it takes more; and nobody stands still for long in either. The founder
// is ahead of the others for some slots.
func TestModeAsyncWaitsForWhatIsQuick(t *testing.T) {
	for pace, waits := range map[time.Duration]bool{200 * time.Millisecond: true, 20 * time.Millisecond: false} {
		t.Run(pace.String(), func(t *testing.T) {
			spec := nodetest.Spec(12, 4)
			spec.Mode = p2pdiloco.ModeAsync
			nodetest.Run(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
				var all []*ahead
				for _, p := range s.Peers {
					b := p.Trainer.(*nodetest.Bowl)
					b.Pace = pace
					all = append(all, &ahead{b, p, make(map[uint64]bool)})
					p.Trainer = all[len(all)-1]
				}
				s.Start(s.Peers...)
				s.Reach(3, s.Peers...)
				first := s.Statuses()
				s.Reach(10, s.Peers...)
				for i, last := range s.Statuses() {
					stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
					if share := stall.Seconds() / (stall + training).Seconds(); share > waitShare {
						t.Errorf("host %d stalled for %v and trained for %v", s.Peers[i].Host, stall, training)
					}
				}
				s.Finish(5*time.Minute, s.Peers...)
				for i, a := range all {
					for slot := uint64(9); slot <= 12; slot++ {
						if begun, ok := a.steps[slot]; ok && begun == waits {
							t.Errorf("host %d: inner steps of slot %d began ahead: %v", s.Peers[i].Host, slot, begun)
						}
					}
				}
			})
		})
	}
}
