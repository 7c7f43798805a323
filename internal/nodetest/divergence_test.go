package nodetest

import (
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// flip changes one bit of the parameters that a node holds, as bad memory does.
func flip(p *Peer) {
	p.Inside().Anchor(func(x []float32) { x[1234] = math.Float32frombits(math.Float32bits(x[1234]) ^ 1) })
}

// A peer whose state is not that of the others finds out, says so, fetches it anew and takes part
// again.
func TestAPeerWhoseStateDivergesSyncsAnew(t *testing.T) {
	for name, leads := range map[string]bool{"the leader": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			Once(t, 12, 4, func(s *Swarm) {
				s.Start(s.Peers...)
				s.Reach(3, s.Peers...)
				p := s.ByID(s.Peers[0].Ledger().View().Leader)
				if !leads {
					p = s.But(p)[0]
				}
				flip(p)
				s.Finish(2*time.Minute, s.Peers...)
				if !p.Had("state.diverged") || !p.Had("state.synced") || !s.ContributedAfter(p, 7) {
					t.Errorf("diverged: %v, synced: %v, contributions in slots %v",
						p.Had("state.diverged"), p.Had("state.synced"), s.Contributions(p))
				}
				for _, e := range p.Events("state.diverged") {
					right := s.But(p)[0].States()[e.Fields["slot"].(uint64)]
					if e.Fields["certified_root"] != right || e.Fields["state_root"] == right {
						t.Errorf("the state certified is %s, the event says %v", right, e.Fields)
					}
				}
				for _, q := range s.But(p) {
					if q.Had("state.diverged") {
						t.Errorf("host %d diverged, too", q.Host)
					}
				}
			})
		})
	}
}

// A peer that was killed between its divergence and the discovery of it has a wrong checkpoint on
// disk, which nothing certifies.
func TestADivergedCheckpointIsNotTakenUp(t *testing.T) {
	Once(t, 12, 4, func(s *Swarm) {
		p := s.Peers[1]
		p.Config = func(c *p2pdiloco.Config) { c.CheckpointEvery = 1 }
		s.Start(s.Peers...)
		s.Reach(3, p)
		flip(p)
		s.Until(time.Minute, "a step on the wrong state", func() bool { return p.Applied() >= 4 })
		s.Stop(p)
		p.ForgetStates() // they were wrong, and it did not get to say so
		s.Start(p)
		s.Finish(2*time.Minute, s.Peers...)
		if !s.ContributedAfter(p, 6) {
			t.Errorf("contributions in slots %v", s.Contributions(p))
		}
	})
}
