package nodetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// finishing is a trainer that says when its inner steps are done.
type finishing struct {
	*Bowl
	done func(slot uint64)
}

func (t finishing) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	defer t.done(task.Slot)
	return t.Bowl.Train(ctx, task)
}

// What a slot costs beside the transfer, in one-way delays of the network: from the moment at which
// the last peer has finished its inner steps to the one at which the last peer has applied the
// outcome. The vector is so small that its transfer takes two delays, there and back, between the
// plan's arrival and the leader's draft: the offer takes one, the plan one, draft, have,
// proposal, vote and commit five. An audit's question and its answer take two, after the draft.
func TestASlotsOverheadInOneWayDelays(t *testing.T) {
	const peers, rounds, latency = 8, 9, 50 * time.Millisecond
	Once(t, rounds, peers, func(s *Swarm) {
		s.Net.Latency = latency
		s.Pace(100 * time.Millisecond)
		type span struct{ trained, planned, drafted, applied time.Time }
		var mu sync.Mutex
		spans := make(map[uint64]*span)
		of := func(n uint64) *span {
			if spans[n] == nil {
				spans[n] = &span{}
			}
			return spans[n]
		}
		for _, p := range s.Peers {
			p.Trainer = finishing{p.Trainer.(*Bowl), func(n uint64) {
				mu.Lock()
				defer mu.Unlock()
				of(n).trained = time.Now()
			}}
			p.OnEvent = func(e p2pdiloco.Event) {
				mu.Lock()
				defer mu.Unlock()
				n, _ := e.Fields["slot"].(uint64)
				switch e.Name {
				case "slot.planned":
					of(n).planned = time.Now()
				case "record.drafted":
					if of(n).drafted.IsZero() { // the one that closes the run is later
						of(n).drafted = time.Now()
					}
				case "slot.applied":
					of(n).applied = time.Now()
				}
			}
		}
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.Peers...)
		var all []float64
		for n := uint64(2); n <= rounds; n++ {
			span := of(n)
			transfer := span.drafted.Sub(span.planned)
			delays := float64(span.applied.Sub(span.trained)-transfer) / float64(latency)
			t.Logf("slot %d: %.1f one-way delays beside the transfer's %.1f", n, delays,
				float64(transfer)/float64(latency))
			all = append(all, delays)
			if transfer > 6*latency {
				t.Errorf("slot %d: its transfer took %v over links of %v", n, transfer, latency)
			}
		}
		slices.Sort(all)
		// Gossip takes two hops where a pair is not in each other's mesh: an offer and the commit
		// may be a delay later each. That is so in every fourth slot or fifth, as the meshes fall.
		if few, most := all[len(all)/4], all[len(all)-1]; few > 9.5 || most > 11.5 {
			t.Errorf("%.1f one-way delays beside the transfer in three of four slots or more, %.1f at most: 9 and 11 "+
				"are allowed", few, most)
		}
	})
}
