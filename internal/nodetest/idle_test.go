package nodetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// mostIdle is what a member may send while nothing is to do, in bytes a second: all that leaves it.
const mostIdle = 2000

// TestIdleTraffic: members that train, or do nothing, for long send little.
func TestIdleTraffic(t *testing.T) {
	sizes, presets := []int{4}, []string{p2pdiloco.PresetLAN}
	if testutil.Nightly() {
		sizes, presets = []int{2, 4, 8, 12, 16}, append(presets, p2pdiloco.PresetWAN)
	}
	for _, preset := range presets {
		for _, n := range sizes {
			t.Run(fmt.Sprint(preset, n), func(t *testing.T) {
				RunOver(t, sim.New, Spec(9, uint64(n)), n, func(s *Swarm) {
					s.Pace(time.Hour)
					for _, p := range s.Peers {
						p.Preset = preset
					}
					s.Start(s.Peers...)
					s.Until(10*time.Minute, "all are members", func() bool {
						return s.Peers[0].Node.Load() != nil && len(s.Peers[0].Node.Load().Status().Members) == n
					})
					time.Sleep(testutil.Choose(5*time.Minute, 5*time.Minute, 10*time.Minute))
					span := testutil.Choose(3*time.Minute, 3*time.Minute, 6*time.Minute)
					before, was := s.Net.Sent(s.Peers[0].Host), s.Peers[0].Network.Traffic()
					time.Sleep(span)
					got := float64(s.Net.Sent(s.Peers[0].Host)-before) / span.Seconds()
					is := s.Peers[0].Network.Traffic()
					t.Logf("%.0f B/s; in streams over %s: control %d, gossip and DHT %d", got, span,
						is.Control.Sent-was.Control.Sent, is.Gossip.Sent-was.Gossip.Sent)
					if got > mostIdle {
						t.Errorf("an idle member of %d sends %.0f B/s", n, got)
					}
				})
			})
		}
	}
}
