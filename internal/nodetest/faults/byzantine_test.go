package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// In trust byzantine a run goes on with one of four gone, or two of seven; with one more it pauses,
// where a majority would go on, and says who is missing. The peer that settled the spec founds it.
func TestTrustByzantineTakesMoreThanAMajority(t *testing.T) {
	for _, c := range []struct {
		name           string
		n, gone, liars int
		said           string
	}{
		{"four", 4, 1, 1, "4 electors: withstands 1 that lies or is gone"},
		{"seven", 7, 2, 2, "7 electors: withstands 2 that lie or are gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := nodetest.Spec(200, uint64(c.n))
			spec.Trust = p2pdiloco.TrustByzantine
			nodetest.Run(t, 10*time.Millisecond, spec, c.n, func(s *nodetest.Swarm) {
				s.Pace(50 * time.Millisecond)
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				status := s.Peers[0].Node.Load().Status()
				if a := status.Agreement; a.Liars != c.liars || !strings.HasPrefix(a.Text, c.said) {
					t.Errorf("the agreement is %+v", a)
				}
				// the parts of this model have few samples, so each elector checks all of them
				if a := status.Audit; a == nil || a.Slot == 0 || a.Of != 24 || !a.Whole {
					t.Errorf("of the audits it says %+v", a)
				}
				if founder := s.ID(s.Founder()).String(); status.Spec["founders"] != founder {
					t.Errorf("%s founded, and the spec says %s", founder, status.Spec["founders"])
				}
				s.Isolate(s.Peers[:c.gone]...) // nothing tells the others that these are gone
				living := s.Peers[c.gone:]
				s.Reach(living[0].Applied()+2, living...)
				for _, p := range living {
					if p.Had("run.paused") {
						t.Errorf("host %d paused with %d of %d gone", p.Host, c.gone, c.n)
					}
				}
			})
		})
		t.Run(c.name+", one more", func(t *testing.T) {
			spec := nodetest.Spec(200, uint64(c.n))
			spec.Trust = p2pdiloco.TrustByzantine
			nodetest.Run(t, 10*time.Millisecond, spec, c.n, func(s *nodetest.Swarm) {
				s.Pace(50 * time.Millisecond)
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				gone, living := s.Peers[:c.gone+1], s.Peers[c.gone+1:]
				s.Isolate(gone...)
				s.Until(time.Minute, "paused", func() bool { return living[0].Had("run.paused") })
				reason := living[0].Node.Load().Status().Reason
				for _, p := range gone {
					if !strings.Contains(reason, s.ID(p).Short()+" (not heard)") {
						t.Errorf("%s is missing, and the reason is %q", s.ID(p).Short(), reason)
					}
				}
				if !strings.Contains(reason, "goes on when 1 of them is back") {
					t.Errorf("the reason is %q", reason)
				}
			})
		})
	}
}
