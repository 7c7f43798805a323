package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// In trust byzantine a run goes on with one of four gone, or two of seven. With one more it pauses,
// where a majority would go on, says who is missing, and goes on once one of them is back. The peer
// that settled the spec founds it.
func TestTrustByzantineTakesMoreThanAMajority(t *testing.T) {
	for n, said := range map[int]string{
		4: "4 electors: withstands 1 that lies or is gone", 7: "7 electors: withstands 2 that lie or are gone",
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if n < 7 && !testutil.Nightly() { // there a majority is as many
				t.Skip("at night")
			}
			c := scenario{Slots: 200, Peers: n, Modes: "sync", Trusts: "byzantine", Pace: 50 * time.Millisecond}
			nodetest.Play(t, c, func(s *swarm) {
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				status := s.Peers[0].Node.Load().Status()
				if a := status.Agreement; a.Liars != n/3 || !strings.HasPrefix(a.Text, said) {
					s.T.Errorf("the agreement is %+v", a)
				}
				// the parts of this model have few samples, so each elector checks all of them
				if a := status.Audit; a == nil || a.Slot == 0 || a.Of != 24 || !a.Whole {
					s.T.Errorf("of the audits it says %+v", a)
				}
				if founder := s.ID(s.Founder()).String(); status.Spec["founders"] != founder {
					s.T.Errorf("%s founded, and the spec says %s", founder, status.Spec["founders"])
				}
				gone, living := s.Peers[:n/3+1], s.Peers[n/3+1:]
				s.Isolate(gone...) // nothing tells the others that these are gone
				s.Until(time.Minute, "paused", func() bool { return living[0].Had("run.paused") })
				reason := living[0].Node.Load().Status().Reason
				for _, p := range gone {
					if !strings.Contains(reason, s.ID(p).Short()+" (not heard)") {
						s.T.Errorf("%s is missing, and the reason is %q", s.ID(p).Short(), reason)
					}
				}
				if !strings.Contains(reason, "goes on when 1 of them is back") {
					s.T.Errorf("the reason is %q", reason)
				}
				rejoin(s, gone[0])
				s.Reach(living[0].Applied()+2, living...)
			})
		})
	}
}
