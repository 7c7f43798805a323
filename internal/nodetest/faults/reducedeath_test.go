package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A reduction that takes seconds, because links are slow, in which somebody dies.
const (
	deathPeers    = 4
	deathElements = 400_000 // 1.6 MB: 2.4 MB out of and into each peer
	deathRate     = 16_000_000
	deathSlot     = 2
)

// deathRun is what came of one run: how long the slot in question took from its plan to its commit,
// and its record.
type deathRun struct {
	took   time.Duration
	record slot.Record
}

// dies runs a swarm on slow links. When the slot's reduction has run for a while, strike does
// something to one of the peers; the others end the run.
func dies(t *testing.T, trust string, after time.Duration,
	strike func(s *nodetest.Swarm) *nodetest.Peer,
) (out deathRun) {
	spec := nodetest.Spec(3, deathPeers)
	spec.Trust = trust
	nodetest.RunOver(t, sim.New, 10*time.Millisecond, spec, 0, func(s *nodetest.Swarm) {
		s.Net.Rate = deathRate
		var mu sync.Mutex
		var planned time.Time
		begun := make(chan struct{})
		for range deathPeers {
			p := s.Add()
			p.Trainer = &nodetest.Bowl{
				Target: float32(p.Host),
				Pace:   10 * time.Millisecond,
				Size:   deathElements,
				Noisy:  true,
			}
			p.Main = nodetest.Stay
			p.OnEvent = func(e p2pdiloco.Event) {
				mu.Lock()
				defer mu.Unlock()
				switch at, _ := e.Fields["slot"].(uint64); {
				case at != deathSlot:
				case e.Name == "slot.planned" && planned.IsZero():
					planned = time.Now()
					close(begun)
				case e.Name == "slot.committed" && out.took == 0:
					out.took = time.Since(planned)
				}
			}
		}
		s.Start(s.Peers...)
		<-begun
		time.Sleep(after)
		dead := strike(s)
		living := s.But(dead)
		s.Reach(deathSlot, living...)
		height := living[0].Events("slot.committed")[deathSlot-1].Fields["height"].(uint64)
		c, _ := living[0].Ledger().Record(height)
		out.record = c.Record
		s.Reach(3, living...)
		s.Equal()
	})
	return out
}

func stayAlive(*nodetest.Swarm) *nodetest.Peer { return nil }

// leaderOf is the peer that leads the open height, or one that does not.
func leaderOf(s *nodetest.Swarm, leads bool) *nodetest.Peer {
	leader := s.ByID(s.Peers[0].Ledger().View().Leader)
	if leads {
		return leader
	}
	return s.But(leader)[0]
}

// A death inside a reduction costs the time to see it and the dead peer's share, and nothing that
// was done: what it contributed before counts. That is so with trust crash.
func TestADeathInAReductionCostsItsShare(t *testing.T) {
	t.Parallel()
	quiet := dies(t, p2pdiloco.TrustCrash, 0, stayAlive)
	eachDeath(t, func(t *testing.T, seen time.Duration, strike func(s *nodetest.Swarm) *nodetest.Peer) {
		got := dies(t, p2pdiloco.TrustCrash, quiet.took/2, strike)
		if most := quiet.took + seen + 2*quiet.took/deathPeers; got.took > most {
			t.Errorf("the slot took %v: at most %v is due, %v undisturbed", got.took, most, quiet.took)
		}
		counts := got.contributors()
		if counts[deathPeers] == 0 || counts[deathPeers-1] == 0 || len(counts) != 2 {
			t.Errorf("ranges by number of contributors: %v; want some with the dead peer, and some without", counts)
		}
		t.Logf("undisturbed %v, with the death %v, ranges by contributors %v", quiet.took, got.took, counts)
	})
}

// Where outcomes are audited, nobody can check what a dead peer contributed: the slot is reduced
// anew without it as soon as it is known to be gone, not when an audit finds that out.
func TestADeathInAnAuditedReduction(t *testing.T) {
	t.Parallel()
	quiet := dies(t, p2pdiloco.TrustByzantine, 0, stayAlive)
	eachDeath(t, func(t *testing.T, seen time.Duration, strike func(s *nodetest.Swarm) *nodetest.Peer) {
		got := dies(t, p2pdiloco.TrustByzantine, quiet.took/2, strike)
		if most := quiet.took/2 + seen + quiet.took + quiet.took/deathPeers; got.took > most {
			t.Errorf("the slot took %v: at most %v is due, %v undisturbed", got.took, most, quiet.took)
		}
		if counts := got.contributors(); counts[deathPeers-1] == 0 || len(counts) != 1 {
			t.Errorf("ranges by number of contributors: %v; want all without the dead peer", counts)
		}
		t.Logf("undisturbed %v, with the death %v", quiet.took, got.took)
	})
}

// contributors counts the ranges by how many peers contributed to them.
func (r deathRun) contributors() map[int]int {
	counts := map[int]int{}
	for _, s := range r.record.Segments {
		counts[s.Contributors.Count()]++
	}
	return counts
}

// eachDeath runs a test with each kind of death. seen is how long the others take at most to know.
func eachDeath(t *testing.T,
	test func(t *testing.T, seen time.Duration, strike func(s *nodetest.Swarm) *nodetest.Peer),
) {
	for name, c := range map[string]struct {
		strike func(s *nodetest.Swarm) *nodetest.Peer
		seen   time.Duration // at most: until the others know
	}{
		"a member crashes": {
			func(s *nodetest.Swarm) *nodetest.Peer { p := leaderOf(s, false); s.Stop(p); return p },
			time.Second,
		},
		"a member is cut off": {func(s *nodetest.Swarm) *nodetest.Peer {
			p := leaderOf(s, false)
			s.Net.Isolate(p.Host)
			return p
		}, 2500 * time.Millisecond},
		"the leader crashes": {
			func(s *nodetest.Swarm) *nodetest.Peer { p := leaderOf(s, true); s.Stop(p); return p },
			3500 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c.seen, c.strike)
		})
	}
}
