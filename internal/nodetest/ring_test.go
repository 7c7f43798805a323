package nodetest

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// rings is the number of plans for a ring that a peer heard of.
func rings(p *Peer) (n int) {
	for _, e := range p.Events("slot.planned") {
		if e.Fields["schedule"] == "ring" {
			n++
		}
	}
	return n
}

// A run in schedule ring, with peers that die and come back: all end with equal roots.
func TestARunInARing(t *testing.T) {
	c := Scenario{Slots: 10, Peers: 5, Modes: "sync delayed", Trusts: "crash", Pace: 30 * time.Millisecond}
	c.Change = func(s *p2pdiloco.Spec) { s.Schedule = "ring" }
	Play(t, c, func(s *Swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		s.Kill(s.Peers[1])
		s.Reach(4, s.But(s.Peers[1])...)
		s.Restart(s.Peers[1])
		s.Stop(s.Peers[3])
		s.Reach(6, s.But(s.Peers[1], s.Peers[3])...)
		s.Restart(s.Peers[3])
		s.Finish(5*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if all := len(p.Events("slot.planned")); rings(p) == 0 || rings(p) < all {
				s.T.Errorf("host %d: %d of %d plans were rings", p.Host, rings(p), all)
			}
		}
	})
}

// Where a pair cannot connect and nobody relays for it, a rotation leaves each out of the other's
// pieces. Once both have said so, auto takes a ring in which they are no neighbours, and every
// contribution is in every segment again.
func TestAPairThatCannotConnectMakesARing(t *testing.T) {
	spec := Spec(10, 4)
	spec.Schedule, spec.Aggregator, spec.Trust = "auto", "mean", "crash"
	Run(t, spec, 4, func(s *Swarm) {
		s.Pace(50 * time.Millisecond)
		for _, p := range s.Peers {
			p.Relay = p2p.RelayConfig{}
		}
		a, c := s.Peers[0], s.Peers[2]
		s.Net.Cut(a.Host, c.Host)
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.Peers...)
		if all := len(a.Events("slot.planned")); rings(a) == 0 || rings(a) >= all {
			t.Errorf("%d of %d plans were rings: the first should not be, the last ones should", rings(a), all)
		}
		for _, p := range s.Peers {
			if len(p.Events("peer.left")) > 0 {
				t.Errorf("host %d saw a peer leave", p.Host)
			}
		}
	})
}
