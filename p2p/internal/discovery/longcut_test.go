package discovery

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// all are the hosts of a simulated network.
func all(s *sim.Net) map[peer.ID]struct{} {
	ids := make(map[peer.ID]struct{})
	for _, h := range s.Hosts {
		ids[h.ID()] = struct{}{}
	}
	return ids
}

// A network was cut in two for longer than libp2p and the DHT remember anybody. Each half has two
// members, and no bootstrap node. They find each other when the cut ends: without the dials to
// members that are missed neither half would ever look for the other one.
func TestALongCutHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members = 4
		s := sim.New(t, members, 10*time.Millisecond)
		var nets []*node
		for i := range members {
			cfg := wan()
			cfg.PeersFile = filepath.Join(t.TempDir(), "peers")
			n := simulated(t, s, i, cfg)
			n.advertise(t, "run")
			n.find(t.Context(), "run")
			nets = append(nets, n)
			for j := range i {
				s.Connect(i, j)
			}
		}
		for i, n := range nets {
			n.env.SetMembers(all(s))
			// half of them are members no more by the time that the cut ends
			others := map[peer.ID]struct{}{s.Hosts[i^1].ID(): {}}
			time.AfterFunc(40*time.Minute, func() { n.env.SetMembers(others) })
		}
		time.Sleep(5 * time.Minute)
		each := func(do func(i, j int)) {
			for _, i := range []int{0, 1} {
				for _, j := range []int{2, 3} {
					do(i, j)
				}
			}
		}
		each(s.Cut)
		time.Sleep(45 * time.Minute)
		each(func(i, j int) {
			if s.Hosts[i].Network().Connectedness(s.Hosts[j].ID()) != network.NotConnected {
				t.Fatal("there is a connection over a cut link")
			}
			s.Heal(i, j)
		})
		began := time.Now()
		for {
			missing := 0
			each(func(i, j int) {
				if s.Hosts[i].Network().Connectedness(s.Hosts[j].ID()) == network.NotConnected {
					missing++
				}
			})
			if missing == 0 {
				break
			}
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("%d of 4 pairs are not connected %s after the cut", missing, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		t.Logf("all are connected %s after the cut", time.Since(began))
	})
}

// A message to a member reaches it though libp2p has forgotten its addresses and nobody else knows
// them: they are in the file.
func TestADialTakesWhatIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		cfg, id := wan(), s.Hosts[1].ID()
		cfg.PeersFile = filepath.Join(t.TempDir(), "peers")
		addrs, err := json.Marshal(s.Hosts[1].Addrs())
		noError(t, err)
		noError(t, os.WriteFile(cfg.PeersFile, fmt.Appendf(nil, `[{"id":%q,"addrs":%s}]`, id, addrs), 0o600))
		n := simulated(t, s, 0, cfg)
		if err := n.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: id}); err != nil {
			t.Error(err)
		}
	})
}
