package faults

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// The leader of a slot vanishes at one moment after another, from its plan to past its commit: with
// 10 ms of latency each of the phases (plan, reduction, draft, proposal, votes, commit) lasts a few
// of these steps.
func TestTheLeaderVanishesAtAnyMomentOfItsSlot(t *testing.T) {
	steps := testlevel.Choose(7, 7, 14)
	for step := range steps {
		after := time.Duration(step) * 154 * time.Millisecond / time.Duration(steps)
		t.Run(after.String(), func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(4, 4), 4, func(s *nodetest.Swarm) {
				victim := s.WhenLeader(2, "slot.planned", func(p *nodetest.Peer) {
					time.AfterFunc(after, func() { s.Net.Isolate(p.Host) })
				})
				s.Start(s.Peers...)
				s.KillAndFinish(victim)
			})
		})
	}
}

// The leader vanishes at the very moment at which it has something on disk or has made it known.
func TestTheLeaderVanishesAtAnEvent(t *testing.T) {
	for _, event := range []string{"slot.planned", "slot.committed", "slot.applied"} {
		t.Run(event, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(4, 4), 4, func(s *nodetest.Swarm) {
				victim := s.WhenLeader(2, event, func(p *nodetest.Peer) { s.Net.Isolate(p.Host) })
				s.Start(s.Peers...)
				s.KillAndFinish(victim)
			})
		})
	}
}

// The leader vanishes while the members finish their inner steps: some have offered, and no plan is
// out yet.
func TestTheLeaderVanishesBeforeItsPlan(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(4, 4), 4, func(s *nodetest.Swarm) {
		for i, p := range s.Peers {
			p.Trainer.(*nodetest.Bowl).Pace = time.Duration(10+5*i) * time.Millisecond
		}
		victim := &atomic.Pointer[nodetest.Peer]{}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		s.Until(time.Minute, "halfway through the offers", func() bool {
			v := s.Peers[0].Ledger().View()
			if v.Plan == nil && len(v.Offered) == 2 {
				victim.Store(s.ByID(v.Leader))
			}
			return victim.Load() != nil
		})
		s.Net.Isolate(victim.Load().Host)
		s.KillAndFinish(victim)
	})
}

// Any two of five vanish at once, at seeded moments: with trust crash the other three are a quorum.
func TestTwoOfFiveVanishAtOnce(t *testing.T) {
	for seed := range testlevel.Choose(3, 3, 5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			spec := nodetest.Spec(5, 5)
			spec.Trust = p2pdiloco.TrustCrash
			nodetest.Run(t, 10*time.Millisecond, spec, 5, func(s *nodetest.Swarm) {
				s.Start(s.Peers...)
				s.Reach(1, s.Peers...)
				time.Sleep(time.Duration(seed*97) * time.Millisecond)
				dead := []*nodetest.Peer{s.Peers[seed], s.Peers[(seed+1+seed%3)%5]}
				s.Isolate(dead...)
				s.Kill(dead...)
				s.Finish(2*time.Minute, s.But(dead...)...)
			})
		})
	}
}
