package partitions

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Peers that start at once found one run, although two pairs of them can never connect, and status
// names who relays.
func TestPairsThatNeverConnectedFoundOneRun(t *testing.T) {
	t.Parallel()
	for _, cut := range [][2][2]int{{{0, 1}, {2, 3}}, {{0, 3}, {1, 2}}, {{2, 4}, {1, 3}}} {
		nodetest.RunNow(t, 100*time.Millisecond, nodetest.Spec(6, 5), 5, func(s *nodetest.Swarm) {
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
			founded := 0
			for _, p := range s.Peers {
				founded += len(p.Events("run.founded"))
			}
			if founded != 1 {
				t.Errorf("without the pairs %v: %d peers founded the run", cut, founded)
			}
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
