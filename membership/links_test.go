package membership

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestRelayedWaysAreKnown: B and C reach each other through a relay. All hear so from their ALIVE,
// with the speed, until there is a better way.
func TestRelayedWaysAreKnown(t *testing.T) {
	l := labOf(t, "ABC")
	a, b, c := l.peers[0], l.peers[1], l.peers[2]
	offers := []slot.Offer{{Peer: a.id}, {Peer: b.id}, {Peer: c.id}}
	for _, relayed := range []bool{true, false} {
		b.m.Report(l.now, ReportLinks{Speeds: map[slot.PeerID]uint32{c.id: 2500}, Uplink: 9000})
		b.m.Report(l.now, ReportConnected{Peer: c.id, Connected: true, Relayed: relayed})
		l.rests(2 * labTiming.Alive)
		for _, p := range l.peers {
			links := p.m.history.links(offers)
			for i := range offers {
				for j := range i {
					want := relayed && i == 2 && j == 1
					if got := links.Between(i, j); got.Relayed() != want || got == slot.LinkNone {
						t.Errorf("%s takes the way of %d and %d for %d, relayed %v", p.id, i, j, got, want)
					}
				}
			}
			if got, want := links.Between(1, 2), slot.LinkOf(2500).Way(relayed); got != want {
				t.Errorf("%s takes the way from B to C for %d, want %d", p.id, got, want)
			}
		}
	}
}

// ways is a transport whose connections a test changes.
type ways struct {
	sink
	now map[slot.PeerID]bool
}

func (w *ways) Connected() map[slot.PeerID]bool { return maps.Clone(w.now) }

// TestDriverSeesWays: connections that come, go, and lead another way.
func TestDriverSeesWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newSwarm(t, simRules(0, 5)), &ways{}
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1), cut: map[slot.PeerID]bool{}}
		cfg := s.config(p, DriverConfig{})
		cfg.Transport = w
		d, err := NewDriver(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l := newLoop(cfg, d.core, d.views, d.inputs, d.verifier.blame, p)
		for _, now := range []map[slot.PeerID]bool{{"x": true, "y": false}, {"x": false, "y": true}, {"y": true}, {}} {
			w.now = now
			l.tick()
			is := d.core.mu.machine.presence
			got := map[slot.PeerID]bool{}
			for q := range is.connected {
				got[q] = is.relayed[q]
			}
			if !maps.Equal(got, now) || len(is.relayed) > len(now) {
				t.Errorf("the machine sees %v, of them relayed %v; want %v", is.connected, is.relayed, now)
			}
		}
	})
}
