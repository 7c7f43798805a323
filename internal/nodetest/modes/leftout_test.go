package modes

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// bases returns the bases of a peer's contributions by slot, which fill while the run goes on.
func bases(s *nodetest.Swarm, of, by *nodetest.Peer) map[uint64]uint64 {
	found := make(map[uint64]uint64)
	by.OnEvent = func(e p2pdiloco.Event) {
		if e.Name != "slot.applied" {
			return
		}
		record, _ := by.Ledger().Record(e.Fields["height"].(uint64))
		for _, o := range record.Record.Contributions {
			if o.Peer == s.ID(of) {
				found[record.Record.Slot] = o.Base
			}
		}
	}
	return found
}

// A contribution that is offered when its slot has a plan without it enters the next slot, where
// late ones count, though the peer's next one is ready before that slot's plan: that one waits
// behind it, and loses nothing either. In mode sync the newer one takes the older one's place.
func TestWhatASlotLeftOutIsNotReplaced(t *testing.T) {
	for mode, want := range map[string]map[uint64]uint64{
		p2pdiloco.ModeSync:    {3: 2, 4: 3},
		p2pdiloco.ModeDelayed: {3: 1, 4: 2},
		p2pdiloco.ModeEager:   {3: 1, 4: 2},
	} {
		t.Run(mode, func(t *testing.T) {
			spec := nodetest.Spec(5, 4)
			spec.Mode, spec.Discount = mode, []uint64{1000, 500}
			nodetest.Run(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
				late := s.Peers[1]
				missesSlot2(s, late)
				got := bases(s, late, s.Peers[0])
				s.Start(s.Peers...)
				s.Finish(3*time.Minute, s.Peers...)
				if _, listed := got[2]; listed {
					t.Fatalf("slot 2 lists it: %v", got)
				}
				for slotNumber, base := range want {
					if b, listed := got[slotNumber]; !listed || b != base {
						t.Errorf("slot %d lists a contribution of base %d (%v), want %d", slotNumber, b, listed, base)
					}
				}
			})
		})
	}
}

// missesSlot2 has a peer offer for slot 2 once that has a plan, and the others for slot 3 once that
// peer's next contribution is ready.
func missesSlot2(s *nodetest.Swarm, late *nodetest.Peer) {
	var next atomic.Bool
	for _, p := range s.Peers {
		p.Trainer.(*nodetest.Bowl).Spoil = func(task p2pdiloco.Task, _ []float32) {
			switch {
			case p == late && task.Slot == 2:
				s.Until(2*time.Minute, "planned without it", func() bool {
					return slices.ContainsFunc(late.Events("slot.planned"), func(e p2pdiloco.Event) bool {
						return e.Fields["slot"] == uint64(2)
					})
				})
			case p == late && task.Slot == 3:
				next.Store(true)
			case task.Slot == 3:
				s.Until(2*time.Minute, "the late peer's next", next.Load)
				time.Sleep(time.Second)
			}
		}
	}
}
