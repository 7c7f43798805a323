package nodetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// announcing counts what a peer announces, and what claims are of it.
type announcing struct {
	membership.Transport
	all, claims atomic.Int64 // bytes
	last        time.Time
	shortest    atomic.Int64 // time between two claims
}

func (a *announcing) Publish(b []byte) {
	a.all.Add(int64(len(b)))
	m, err := wire.Open(b, a.run(b), func(slot.PeerID, []byte, []byte) bool { return true })
	if alive, is := m.Body.(wire.Alive); err == nil && is && len(alive.Claims) > 0 {
		a.claims.Add(int64(len(alive.Claims)))
		if now := time.Now(); !a.last.IsZero() {
			a.shortest.Store(min(a.shortest.Load(), int64(now.Sub(a.last))))
		}
		a.last = time.Now()
	}
	a.Transport.Publish(b)
}

// run is the run that a sealed message is of.
func (a *announcing) run(b []byte) slot.Root { return slot.Root(b[2 : 2+len(slot.Root{})]) }

// Every peer sees what the others say of themselves, and keeps what it measured. Of what is
// announced while eight peers train, claims are at most a twentieth.
func TestEveryPeerKnowsTheOthers(t *testing.T) {
	const peers = 5
	slots := testutil.Choose[uint64](12, 12, 20)
	Once(t, 40, peers, func(s *Swarm) {
		s.Pace(200 * time.Millisecond) // rounds of 4 s
		said := make([]*announcing, peers)
		for i, p := range s.Peers {
			said[i] = &announcing{}
			said[i].shortest.Store(int64(time.Hour))
			p.Preset = p2pdiloco.PresetWAN
			p.Config = func(c *p2pdiloco.Config) { c.PeerName = fmt.Sprintf("rack %d", i) }
			p.Hooks = func(h *edge.Hooks) {
				h.Ledger = func(c *membership.DriverConfig) { said[i].Transport, c.Transport = c.Transport, said[i] }
			}
		}
		s.Start(s.Peers...)
		s.Reach(slots, s.Peers...)
		var all, claims int64
		for i, p := range s.Peers {
			node := p.Node.Load()
			for _, m := range node.Status().Members {
				if m.Says == nil || m.Says.Name != fmt.Sprintf("rack %d", s.ByID(m.Peer).Host-s.Peers[0].Host) ||
					m.Says.TokensPerSecond == nil || m.Says.StalledShare == nil || m.Says.UpBytesPerSecond == nil ||
					m.Says.Version == "" {
					t.Errorf("peer %d sees %s say %+v", i, m.Peer.Short(), m.Says)
				}
			}
			history, err := node.SlotMetrics()
			if err != nil || len(history) < int(slots)-1 {
				t.Errorf("peer %d has measured %d slots, %v", i, len(history), err)
			}
			all, claims = all+said[i].all.Load(), claims+said[i].claims.Load()
			if least := time.Duration(said[i].shortest.Load()); least < 5*time.Second {
				t.Errorf("peer %d makes claims %v after others", i, least)
			}
		}
		t.Logf("%d bytes of claims in %d that are announced", claims, all)
		if claims == 0 || claims*20 > all-claims {
			t.Errorf("%d bytes of claims in %d that are announced", claims, all)
		}
	})
}
