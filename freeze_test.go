package p2pdiloco

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A process that is stopped (SIGSTOP) for less than Timing.Lost, 1.5 s here: nobody misses it, and it goes on where it was.
func TestStoppedForLessThanLost(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 3), 3, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		p := s.peers[1]
		s.start(s.peers...)
		s.reach(2, s.peers...)
		s.freeze(p)
		time.Sleep(time.Second)
		s.thaw(p)
		s.finish(2*time.Minute, s.peers...)
		if got := s.contributions(p); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6}) {
			t.Errorf("it contributed to slots %v, want all", got)
		}
		for _, q := range s.peers {
			if q.had("peer.left") || q.had("peer.suspected") || q.had("run.paused") {
				t.Errorf("host %d missed somebody for a stop of a second", q.host)
			}
		}
	})
}

// One that is stopped for longer is left out, as a dead one is. When it goes on it finds that the others went on without it, gets
// what it missed, and takes part again as the same incarnation.
func TestStoppedForMoreThanLost(t *testing.T) {
	for name, leader := range map[string]bool{"a member": false, "the leader in its slot": true} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(16, 4), 4, func(s *swarm) {
				s.pace(50 * time.Millisecond)
				p := s.peers[1]
				if !leader {
					s.start(s.peers...)
					s.reach(2, s.peers...)
					s.freeze(p)
				} else {
					victim := s.whenLeader(3, "slot.planned", func(q *simPeer) { s.freeze(q) })
					s.start(s.peers...)
					s.until(time.Minute, "planned", func() bool { return victim.Load() != nil })
					p = victim.Load()
				}
				at := p.applied()
				time.Sleep(5 * time.Second)
				if p.applied() > at {
					t.Error("a stopped peer went on")
				}
				if !s.but(p)[0].had("peer.left") {
					t.Error("a stopped peer was not left out")
				}
				s.thaw(p)
				s.finish(2*time.Minute, s.peers...)
				if !s.contributedAfter(p, at+3) {
					t.Errorf("it contributed to slots %v and never again", s.contributions(p))
				}
				if founded := p.events("run.founded"); len(founded) > 1 {
					t.Errorf("it founded the run %d times", len(founded))
				}
			})
		})
	}
}

// All are stopped at once, a laptop's lid over all of them, and go on: nothing is lost.
func TestAllStoppedAtOnce(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 3), 3, func(s *swarm) {
		s.start(s.peers...)
		s.reach(2, s.peers...)
		for _, p := range s.peers {
			s.freeze(p)
		}
		time.Sleep(10 * time.Second)
		for _, p := range s.peers {
			s.thaw(p)
		}
		s.finish(2*time.Minute, s.peers...)
	})
}

// The leader of the open height leaves: while nobody has offered, or with its plan out. The others go on without a pause.
func TestTheLeaderLeaves(t *testing.T) {
	for name, planned := range map[string]bool{"during inner steps": false, "in its slot": true} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(6, 4), 4, func(s *swarm) {
				s.pace(30 * time.Millisecond)
				told := make(map[*simPeer]chan struct{})
				for _, p := range s.peers {
					told[p] = make(chan struct{})
					p.drive = s.leaveOrEnd(told[p])
				}
				var leader *simPeer
				if planned {
					victim := s.whenLeader(3, "slot.planned", func(p *simPeer) { close(told[p]) })
					s.start(s.peers...)
					s.until(time.Minute, "planned", func() bool { return victim.Load() != nil })
					leader = victim.Load()
				} else {
					s.start(s.peers...)
					s.reach(2, s.peers...)
					s.until(time.Minute, "nobody has offered", func() bool {
						v := s.peers[0].node.Load().driver.View()
						leader = s.byID(v.Leader)
						return v.Plan == nil && len(v.Offered) == 0
					})
					close(told[leader])
				}
				if err := s.outcome(leader, time.After(time.Minute)); err != nil {
					t.Errorf("Leave: %v", err)
				}
				s.finish(2*time.Minute, s.but(leader)...)
				for _, p := range s.but(leader) {
					if left := p.events("peer.left"); len(left) != 1 || left[0].Fields["detail"] != "left" {
						t.Errorf("host %d: peer.left %v", p.host, left)
					}
				}
			})
		})
	}
}

// leaveOrEnd drives a peer that leaves when told, and otherwise ends with the run.
func (s *swarm) leaveOrEnd(told <-chan struct{}) func(context.Context, *Node) error {
	return func(ctx context.Context, n *Node) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-told:
				stop()
			case <-running.Done():
			}
		}()
		if err := n.Run(running); running.Err() == nil || ctx.Err() != nil {
			return err
		}
		return n.Leave(ctx)
	}
}
