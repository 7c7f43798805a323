package faults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// A reduction that takes seconds, because links are slow, in which somebody dies.
const (
	deathPeers    = 4
	deathElements = 40_000 // 160 kB: 240 kB out of and into each peer
	deathRate     = 1_600_000
	deathSlot     = 2
)

// dies runs a swarm on slow links. Some time after the slot's plan, strike does something to one of
// the peers. It returns how long the slot took from there to its commit, and its record.
func dies(t *testing.T, trust string, after time.Duration, strike func(s *swarm) *peer) (
	took time.Duration, record slot.Record,
) {
	spec := nodetest.Spec(3, deathPeers)
	spec.Trust = trust
	nodetest.RunNow(t, spec, 0, func(s *swarm) {
		s.Net.Rate = deathRate
		var mu sync.Mutex
		var planned time.Time
		begun := make(chan struct{})
		for range deathPeers {
			p := s.Add()
			b := p.Trainer.(*nodetest.Bowl)
			b.Size, b.Noisy, p.Main = deathElements, true, nodetest.Stay
			p.OnEvent = func(e p2pdiloco.Event) {
				mu.Lock()
				defer mu.Unlock()
				switch at, _ := e.Fields["slot"].(uint64); {
				case at != deathSlot:
				case e.Name == "slot.planned" && planned.IsZero():
					planned = time.Now()
					close(begun)
				case e.Name == "slot.committed" && took == 0:
					took = time.Since(planned)
				}
			}
		}
		s.Start(s.Peers...)
		<-begun
		time.Sleep(after)
		living := s.But(strike(s))
		s.Reach(deathSlot, living...)
		c, _ := living[0].Ledger().Record(living[0].Events("slot.committed")[deathSlot-1].Fields["height"].(uint64))
		record = c.Record
		s.Reach(3, living...)
		s.Equal()
	})
	return took, record
}

// A death inside a reduction costs the time to see it and the dead peer's share, and nothing that
// was done: what it contributed before counts. That is so with trust crash. Where outcomes are
// audited, nobody can check what a dead peer contributed: the slot is reduced anew without it as
// soon as it is known to be gone, not when an audit finds that out.
func TestADeathInAReduction(t *testing.T) {
	const crash, byzantine = p2pdiloco.TrustCrash, p2pdiloco.TrustByzantine
	deaths := []struct {
		trust      string
		leads, cut bool          // it leads the slot; it is cut off, and no connection of its ends
		seen       time.Duration // at most: until the others know
	}{
		{crash, false, false, time.Second},
		{byzantine, false, true, 3 * time.Second},
		{byzantine, true, false, 3500 * time.Millisecond},
		// from here at night
		{crash, true, false, 3500 * time.Millisecond},
		{byzantine, false, false, time.Second},
		{crash, false, true, 3 * time.Second},
	}
	for _, c := range deaths[:testutil.Choose(3, 3, len(deaths))] {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			quiet, _ := dies(t, c.trust, 0, func(*swarm) *peer { return nil })
			took, record := dies(t, c.trust, quiet/3, func(s *swarm) *peer {
				p := s.ByID(s.Peers[0].Ledger().View().Leader)
				if !c.leads {
					p = s.But(p)[0]
				}
				if c.cut {
					s.Isolate(p)
				} else {
					s.Stop(p)
				}
				return p
			})
			counts := map[int]int{} // ranges by how many contributed to them
			for _, seg := range record.Segments {
				counts[seg.Contributors.Count()]++
			}
			most, kinds := quiet+c.seen+2*quiet/deathPeers, 2
			if c.trust == byzantine {
				most, kinds = quiet/2+c.seen+quiet+quiet/deathPeers, 1
			}
			if took > most {
				t.Errorf("the slot took %v: at most %v is due, %v undisturbed", took, most, quiet)
			}
			if counts[deathPeers-1] == 0 || len(counts) != kinds || kinds == 2 && counts[deathPeers] == 0 {
				t.Errorf("ranges by number of contributors: %v; some with the dead peer: %v", counts, kinds == 2)
			}
		})
	}
}
