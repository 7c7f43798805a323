package faults

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// The leader of a slot vanishes at one moment after another, from its plan to past its commit: with
// 10 ms of latency each of the phases (plan, reduction, draft, proposal, votes, commit) lasts a few
// of these steps. Or it vanishes just when it has something on disk, or has made it known; also in
// the last slot, and between that and the closing record.
func TestTheLeaderVanishesAtAnyMomentOfItsSlot(t *testing.T) {
	type moment struct {
		slot  uint64
		event string
		after time.Duration
	}
	moments := []moment{{4, "slot.planned", 0}, {4, "slot.committed", 0}, {4, "slot.applied", 0}}
	steps := testutil.Choose(2, 2, 14)
	for step := range steps {
		after := time.Duration(step) * 154 * time.Millisecond / time.Duration(steps)
		moments = append(moments, moment{2, "slot.planned", after})
	}
	for _, m := range append(moments, moment{2, "slot.committed", 0}) {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			nodetest.Play(t, scenario{Slots: 4, Peers: 4}, func(s *swarm) {
				victim := whenLeader(s, m.slot, m.event, func(p *peer) {
					if m.after == 0 {
						s.Isolate(p)
						return
					}
					time.AfterFunc(m.after, func() { s.Isolate(p) })
				})
				s.Start(s.Peers...)
				killAndFinish(s, victim)
				for _, p := range s.But(victim.Load()) {
					if !p.Had("run.done") {
						s.T.Errorf("host %d did not say that the run is over", p.Host)
					}
				}
			})
		})
	}
}

// The leader vanishes while the members finish their inner steps: some have offered, and no plan is
// out yet.
func TestTheLeaderVanishesBeforeItsPlan(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 4, Peers: 4}, func(s *swarm) {
		for i, p := range s.Peers {
			p.Trainer.(*nodetest.Bowl).Pace = time.Duration(10+5*i) * time.Millisecond
		}
		victim := &atomic.Pointer[peer]{}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		s.Until(time.Minute, "halfway through the offers", func() bool {
			v := s.Peers[0].Ledger().View()
			if v.Plan == nil && len(v.Offered) == 2 {
				victim.Store(s.ByID(v.Leader))
			}
			return victim.Load() != nil
		})
		s.Isolate(victim.Load())
		killAndFinish(s, victim)
	})
}

// whenLeader calls f once, when the leader of a slot's first ballot has an event of that slot. The
// pointer then holds the leader.
func whenLeader(s *swarm, slotNumber uint64, event string, f func(*peer)) *atomic.Pointer[peer] {
	leader, victim := &atomic.Pointer[peer]{}, &atomic.Pointer[peer]{}
	for _, p := range s.Peers {
		p.OnEvent = func(e p2pdiloco.Event) {
			if e.Fields["slot"] != slotNumber {
				return
			}
			if l := p.Ledger(); e.Name == "slot.planned" && l != nil && l.View().Leader == e.Peer {
				leader.CompareAndSwap(nil, p)
			}
			if e.Name == event && leader.Load() == p && victim.CompareAndSwap(nil, p) {
				f(p)
			}
		}
	}
	return victim
}

// killAndFinish kills a peer that was cut off, once it was, and sees the others through.
func killAndFinish(s *swarm, victim *atomic.Pointer[peer]) {
	s.T.Helper()
	s.Until(time.Minute, "found a leader to kill", func() bool { return victim.Load() != nil })
	time.Sleep(300 * time.Millisecond) // later than any step of the tests
	s.Kill(victim.Load())
	s.Finish(2*time.Minute, s.But(victim.Load())...)
}
