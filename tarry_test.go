package p2pdiloco

import (
	"context"
	"testing"
	"time"
)

// ahead is a trainer that notes which inner steps began before the slot before them had landed.
type ahead struct {
	*bowl
	peer  *simPeer
	steps map[uint64]bool // by the slot trained for
}

func (a *ahead) Train(ctx context.Context, task Task) (Stats, error) {
	a.steps[task.Slot] = a.peer.node.Load().flight != nil
	return a.bowl.Train(ctx, task)
}

// In mode async inner steps begin with the others' part in them where a slot takes little of their time, and at once where it takes more; and
// nobody stands still for long in either. Who founds the run is ahead of the others, for some slots.
func TestModeAsyncWaitsForWhatIsQuick(t *testing.T) {
	for pace, waits := range map[time.Duration]bool{200 * time.Millisecond: true, 20 * time.Millisecond: false} {
		t.Run(pace.String(), func(t *testing.T) {
			spec := simSpec(12, 4)
			spec.Mode = ModeAsync
			inSim(t, 10*time.Millisecond, spec, 4, func(s *swarm) {
				var all []*ahead
				for _, p := range s.peers {
					b := p.trainer.(*bowl)
					b.pace = pace
					all = append(all, &ahead{b, p, make(map[uint64]bool)})
					p.trainer = all[len(all)-1]
				}
				s.start(s.peers...)
				s.reach(3, s.peers...)
				first := s.stalls()
				s.reach(10, s.peers...)
				for i, last := range s.stalls() {
					stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
					if share := stall.Seconds() / (stall + training).Seconds(); share > 1./tarryShare {
						t.Errorf("host %d stalled for %v and trained for %v", s.peers[i].host, stall, training)
					}
				}
				s.finish(5*time.Minute, s.peers...)
				for i, a := range all {
					for slot := uint64(9); slot <= 12; slot++ {
						if begun, ok := a.steps[slot]; ok && begun == waits {
							t.Errorf("host %d: inner steps of slot %d began ahead: %v", s.peers[i].host, slot, begun)
						}
					}
				}
			})
		})
	}
}
