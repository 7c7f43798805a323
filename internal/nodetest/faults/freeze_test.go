package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// A process that is stopped (SIGSTOP) for less than Timing.Lost, 1.5 s here: nobody misses it, and
// it goes on where it was.
func TestStoppedForLessThanLost(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 3), 3, func(s *nodetest.Swarm) {
		s.Pace(50 * time.Millisecond)
		p := s.Peers[1]
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		s.Freeze(p)
		time.Sleep(time.Second)
		s.Thaw(p)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(p); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6}) {
			t.Errorf("it contributed to slots %v, want all", got)
		}
		for _, q := range s.Peers {
			if q.Had("peer.left") || q.Had("peer.suspected") || q.Had("run.paused") {
				t.Errorf("host %d missed somebody for a stop of a second", q.Host)
			}
		}
	})
}

// One that is stopped for longer is left out, as a dead one is. When it goes on it finds that the
// others went on without it, gets what it missed, and takes part again as the same incarnation.
func TestStoppedForMoreThanLost(t *testing.T) {
	for name, leader := range map[string]bool{"a member": false, "the leader in its slot": true} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(16, 4), 4, func(s *nodetest.Swarm) {
				s.Pace(50 * time.Millisecond)
				p := s.Peers[1]
				if !leader {
					s.Start(s.Peers...)
					s.Reach(2, s.Peers...)
					s.Freeze(p)
				} else {
					victim := s.WhenLeader(3, "slot.planned", func(q *nodetest.Peer) { s.Freeze(q) })
					s.Start(s.Peers...)
					s.Until(time.Minute, "planned", func() bool { return victim.Load() != nil })
					p = victim.Load()
				}
				at := p.Applied()
				time.Sleep(5 * time.Second)
				if p.Applied() > at {
					t.Error("a stopped peer went on")
				}
				if !s.But(p)[0].Had("peer.left") {
					t.Error("a stopped peer was not left out")
				}
				s.Thaw(p)
				s.Finish(2*time.Minute, s.Peers...)
				if !s.ContributedAfter(p, at+3) {
					t.Errorf("it contributed to slots %v and never again", s.Contributions(p))
				}
				if founded := p.Events("run.founded"); len(founded) > 1 {
					t.Errorf("it founded the run %d times", len(founded))
				}
			})
		})
	}
}

// All are stopped at once, a laptop's lid over all of them, and go on: nothing is lost.
func TestAllStoppedAtOnce(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 3), 3, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		for _, p := range s.Peers {
			s.Freeze(p)
		}
		time.Sleep(10 * time.Second)
		for _, p := range s.Peers {
			s.Thaw(p)
		}
		s.Finish(2*time.Minute, s.Peers...)
	})
}

// The leader of the open height leaves: while nobody has offered, or with its plan out. The others
// go on without a pause.
func TestTheLeaderLeaves(t *testing.T) {
	for name, planned := range map[string]bool{"during inner steps": false, "in its slot": true} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(6, 4), 4, func(s *nodetest.Swarm) {
				s.Pace(30 * time.Millisecond)
				told := make(map[*nodetest.Peer]chan struct{})
				for _, p := range s.Peers {
					told[p] = make(chan struct{})
					p.Main = s.LeaveOrEnd(told[p])
				}
				var leader *nodetest.Peer
				if planned {
					victim := s.WhenLeader(3, "slot.planned", func(p *nodetest.Peer) { close(told[p]) })
					s.Start(s.Peers...)
					s.Until(time.Minute, "planned", func() bool { return victim.Load() != nil })
					leader = victim.Load()
				} else {
					s.Start(s.Peers...)
					s.Reach(2, s.Peers...)
					s.Until(time.Minute, "nobody has offered", func() bool {
						v := s.Peers[0].Ledger().View()
						leader = s.ByID(v.Leader)
						return v.Plan == nil && len(v.Offered) == 0
					})
					close(told[leader])
				}
				if err := s.Outcome(leader, time.After(time.Minute)); err != nil {
					t.Errorf("Leave: %v", err)
				}
				s.Finish(2*time.Minute, s.But(leader)...)
				for _, p := range s.But(leader) {
					if left := p.Events("peer.left"); len(left) != 1 || left[0].Fields["detail"] != "left" {
						t.Errorf("host %d: peer.left %v", p.Host, left)
					}
				}
			})
		})
	}
}
