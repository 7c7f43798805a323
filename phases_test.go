package p2pdiloco

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// The leader of a slot vanishes at one moment after another, from its plan to past its commit: with 10 ms of latency each of
// the phases (plan, reduction, draft, proposal, votes, commit) lasts a few of these steps.
func TestTheLeaderVanishesAtAnyMomentOfItsSlot(t *testing.T) {
	for step := range 14 {
		after := time.Duration(step) * 11 * time.Millisecond
		t.Run(after.String(), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(4, 4), 4, func(s *swarm) {
				victim := s.whenLeader(2, "slot.planned", func(p *simPeer) {
					time.AfterFunc(after, func() { s.net.Isolate(p.host) })
				})
				s.start(s.peers...)
				s.killAndFinish(victim)
			})
		})
	}
}

// The leader vanishes at the very moment at which it has something on disk or has made it known.
func TestTheLeaderVanishesAtAnEvent(t *testing.T) {
	for _, event := range []string{"slot.planned", "slot.committed", "slot.applied"} {
		t.Run(event, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(4, 4), 4, func(s *swarm) {
				victim := s.whenLeader(2, event, func(p *simPeer) { s.net.Isolate(p.host) })
				s.start(s.peers...)
				s.killAndFinish(victim)
			})
		})
	}
}

// The leader vanishes while the members finish their inner steps: some have offered, and no plan is out yet.
func TestTheLeaderVanishesBeforeItsPlan(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(4, 4), 4, func(s *swarm) {
		for i, p := range s.peers {
			p.trainer.(*bowl).pace = time.Duration(10+5*i) * time.Millisecond
		}
		victim := &atomic.Pointer[simPeer]{}
		s.start(s.peers...)
		s.reach(1, s.peers...)
		s.until(time.Minute, "halfway through the offers", func() bool {
			v := s.peers[0].node.Load().driver.View()
			if v.Plan == nil && len(v.Offered) == 2 {
				victim.Store(s.byID(v.Leader))
			}
			return victim.Load() != nil
		})
		s.net.Isolate(victim.Load().host)
		s.killAndFinish(victim)
	})
}

// whenLeader calls f once, when the leader of a slot's first ballot has an event of that slot. The pointer then holds the leader.
func (s *swarm) whenLeader(slotNumber uint64, event string, f func(*simPeer)) *atomic.Pointer[simPeer] {
	leader, victim := &atomic.Pointer[simPeer]{}, &atomic.Pointer[simPeer]{}
	for _, p := range s.peers {
		p.on = func(e Event) {
			if e.Fields["slot"] != slotNumber {
				return
			}
			if n := p.node.Load(); e.Name == "slot.planned" && n != nil && n.driver.View().Leader == e.Peer {
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
func (s *swarm) killAndFinish(victim *atomic.Pointer[simPeer]) {
	s.t.Helper()
	s.until(time.Minute, "found a leader to kill", func() bool { return victim.Load() != nil })
	time.Sleep(300 * time.Millisecond) // later than any step of the tests
	s.kill(victim.Load())
	s.finish(2*time.Minute, s.but(victim.Load())...)
}

// Any two of five vanish at once, at seeded moments.
func TestTwoOfFiveVanishAtOnce(t *testing.T) {
	for seed := range 5 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(5, 5), 5, func(s *swarm) {
				s.start(s.peers...)
				s.reach(1, s.peers...)
				time.Sleep(time.Duration(seed*97) * time.Millisecond)
				dead := []*simPeer{s.peers[seed], s.peers[(seed+1+seed%3)%5]}
				s.isolate(dead...)
				s.kill(dead...)
				s.finish(2*time.Minute, s.but(dead...)...)
			})
		})
	}
}
