package p2pdiloco

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// flip changes one bit of a node's anchor, as bad memory does.
func flip(n *Node) {
	s := n.worker.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.anchor[1234] = math.Float32frombits(math.Float32bits(s.mu.anchor[1234]) ^ 1)
}

// A peer whose state is not that of the others finds out, says so, fetches it anew and takes part again.
func TestAPeerWhoseStateDivergesSyncsAnew(t *testing.T) {
	for victim := range 3 { // the leader of the slot is among them
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(12, 4), 4, func(s *swarm) {
				p := s.peers[victim]
				s.start(s.peers...)
				s.reach(3, p)
				flip(p.node.Load())
				s.finish(2*time.Minute, s.peers...)
				if !p.had("state.diverged") || !p.had("state.synced") || !s.contributedAfter(p, 7) {
					t.Errorf("diverged: %v, synced: %v, contributions in slots %v",
						p.had("state.diverged"), p.had("state.synced"), s.contributions(p))
				}
				for _, e := range p.events("state.diverged") {
					right := s.but(p)[0].states()[e.Fields["slot"].(uint64)]
					if e.Fields["certified_root"] != right || e.Fields["state_root"] == right {
						t.Errorf("the state certified is %s, the event says %v", right, e.Fields)
					}
				}
				for _, q := range s.but(p) {
					if q.had("state.diverged") {
						t.Errorf("host %d diverged, too", q.host)
					}
				}
			})
		})
	}
}

// A peer that was killed between its divergence and the discovery of it has a wrong checkpoint on disk, which nothing certifies.
func TestADivergedCheckpointIsNotTakenUp(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 4), 4, func(s *swarm) {
		p := s.peers[1]
		p.config = func(c *Config) { c.CheckpointEvery = 1 }
		s.start(s.peers...)
		s.reach(3, p)
		flip(p.node.Load())
		s.until(time.Minute, "a step on the wrong state", func() bool { return p.applied() >= 4 })
		s.stop(p)
		p.mu.Lock()
		clear(p.mu.roots) // they were wrong, and it did not get to say so
		p.mu.Unlock()
		s.start(p)
		s.finish(2*time.Minute, s.peers...)
		if !s.contributedAfter(p, 6) {
			t.Errorf("contributions in slots %v", s.contributions(p))
		}
	})
}
