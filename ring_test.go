package p2pdiloco

import (
	"testing"
	"time"
)

// rings is the number of plans for a ring that a peer heard of.
func (p *simPeer) rings() (n int) {
	for _, e := range p.events("slot.planned") {
		if e.Fields["schedule"] == "ring" {
			n++
		}
	}
	return n
}

// A run in schedule ring, with peers that die and come back: all end with equal roots.
func TestARunInARing(t *testing.T) {
	for _, mode := range []string{ModeSync, ModeDelayed} {
		t.Run(mode, func(t *testing.T) {
			spec := simSpec(10, 5)
			spec.Mode, spec.Schedule = mode, "ring"
			if mode != ModeSync {
				spec.Momentum = ""
			}
			inSim(t, 10*time.Millisecond, spec, 5, func(s *swarm) {
				s.pace(30 * time.Millisecond)
				s.start(s.peers...)
				s.reach(2, s.peers...)
				s.kill(s.peers[1])
				s.reach(4, s.but(s.peers[1])...)
				s.restart(s.peers[1])
				s.stop(s.peers[3])
				s.reach(6, s.but(s.peers[1], s.peers[3])...)
				s.restart(s.peers[3])
				s.finish(5*time.Minute, s.peers...)
				for _, p := range s.peers {
					if all := len(p.events("slot.planned")); p.rings() == 0 || p.rings() < all {
						t.Errorf("host %d: %d of %d plans were rings", p.host, p.rings(), all)
					}
				}
			})
		})
	}
}

// Where a pair cannot connect, a rotation leaves each out of the other's pieces. Once both have said so, auto takes a ring in which they are
// no neighbours, and every contribution is in every segment again.
func TestAPairThatCannotConnectMakesARing(t *testing.T) {
	spec := simSpec(10, 4)
	spec.Schedule, spec.Aggregator = "auto", "mean"
	inSim(t, 10*time.Millisecond, spec, 4, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		a, c := s.peers[0], s.peers[2]
		s.net.Cut(a.host, c.host)
		s.start(s.peers...)
		s.finish(5*time.Minute, s.peers...)
		if all := len(a.events("slot.planned")); a.rings() == 0 || a.rings() >= all {
			t.Errorf("%d of %d plans were rings: the first should not be, the last ones should", a.rings(), all)
		}
		for _, p := range s.peers {
			if len(p.events("peer.left")) > 0 {
				t.Errorf("host %d saw a peer leave", p.host)
			}
		}
	})
}
