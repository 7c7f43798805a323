package partitions

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Peers that start at once end in one run, although two pairs of them can never connect, and status
// names who relays.
func TestPairsThatNeverConnectedFoundOneRun(t *testing.T) {
	t.Parallel()
	for _, cut := range [][2][2]int{{{0, 1}, {2, 3}}, {{0, 3}, {1, 2}}, {{2, 4}, {1, 3}}} {
		nodetest.RunNow(t, 100*time.Millisecond, nodetest.Spec(6, 5), 5, func(s *swarm) {
			s.Pace(50 * time.Millisecond)
			for _, p := range s.Peers {
				p.WAN = true
				p.Config = func(c *p2pdiloco.Config) { c.Preset = p2pdiloco.PresetWAN }
			}
			for _, pair := range cut {
				s.Net.Cut(s.Peers[pair[0]].Host, s.Peers[pair[1]].Host)
			}
			s.Start(s.Peers...)
			s.Reach(5, s.Peers...)
			oneRun(s)
			first, other := s.Peers[cut[0][0]], s.ID(s.Peers[cut[0][1]])
			for _, m := range first.Node.Load().Status().Members {
				if apart := m.Peer == other; !m.Self && (m.Path == nil || apart != (m.Path.Relay != "")) {
					t.Errorf("host %d reaches %s by %+v", first.Host, m.Peer.Short(), m.Path)
				}
			}
			s.Finish(5*time.Minute, s.Peers...)
		})
	}
}

// oneRun wants all peers in one run.
func oneRun(s *swarm) {
	s.T.Helper()
	for _, p := range s.Peers {
		if a, b := p.Node.Load().RunID(), s.Peers[0].Node.Load().RunID(); a != b {
			s.T.Errorf("host %d is in the run %s, host %d in %s", p.Host, a.Short(), s.Peers[0].Host, b.Short())
		}
	}
}

// Of three peers two do not see each other, and each of them founds the run. When the third has
// taken one of the two, the other one is given up, whether it comes late or not.
func TestTwoThatDoNotSeeEachOtherEndInOneRun(t *testing.T) {
	t.Parallel()
	for _, trust := range []string{p2pdiloco.TrustByzantine, p2pdiloco.TrustCrash} {
		for _, late := range []bool{false, true} {
			spec := nodetest.Spec(30, 1)
			spec.Trust = trust
			nodetest.RunNow(t, 20*time.Millisecond, spec, 3, func(s *swarm) {
				s.Pace(50 * time.Millisecond)
				a, between, c := s.Peers[0], s.Peers[1], s.Peers[2]
				s.Net.Cut(a.Host, c.Host)
				s.Start(a, c)
				if late {
					s.Until(time.Minute, "founded twice", func() bool {
						return a.Had("run.founded") && c.Had("run.founded")
					})
				}
				s.Start(between)
				s.Reach(25, s.Peers...)
				oneRun(s)
				s.Finish(5*time.Minute, s.Peers...)
			})
		}
	}
}
