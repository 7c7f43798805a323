package discovery

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

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
			n.Remember(all(s))
			// half of them are members no more by the time that the cut ends
			others := map[peer.ID]struct{}{s.Hosts[i^1].ID(): {}}
			time.AfterFunc(40*time.Minute, func() { n.Remember(others) })
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
			if time.Since(began) > rejoinMost+time.Minute {
				t.Fatalf("%d of 4 pairs are not connected %s after the cut", missing, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		t.Logf("all are connected %s after the cut", time.Since(began))
	})
}

// Many members that are gone for good cost a few dials a minute, however long they have been gone,
// and each of them is dialled now and then. One that was put out of the run is not.
func TestMembersThatAreGoneCostFewDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gone = 50
		s := sim.New(t, 2, 10*time.Millisecond)
		n := simulated(t, s, 0, wan())
		s.Connect(0, 1)
		members := make(map[peer.ID]struct{})
		var barred peer.ID
		for i := range gone + 1 {
			id := peerOf(t)
			members[id], barred = struct{}{}, id
			n.remembers(id, multiaddr.StringCast(fmt.Sprintf("/ip4/1.2.3.4/udp/%d/quic-v1", 1+i)))
		}
		n.Remember(members)
		n.Bar([]peer.ID{barred})
		delete(members, barred)

		r := newRejoiner(n.env, n.book, func(peer.ID) bool { return false })
		dials := make(map[peer.ID]int)
		count := func(minutes int) (all int) {
			for end := time.Now().Add(time.Duration(minutes) * time.Minute); time.Now().Before(end); {
				for _, id := range r.due(time.Now()) {
					dials[id]++
					all++
				}
				time.Sleep(jittered(rejoinEvery))
			}
			return all
		}
		for hour := range 3 {
			if all := count(60); all > 9*60 {
				t.Errorf("%d dials in hour %d", all, hour)
			}
		}
		for id := range members {
			if dials[id] < 6 {
				t.Errorf("a member was dialled %d times in three hours", dials[id])
			}
		}
		if dials[barred] > 0 || len(dials) != gone {
			t.Errorf("the barred peer was dialled %d times, of the others %d were", dials[barred], len(dials))
		}
	})
}

// A network is cut in which 100 members have come and gone: the other half is dialled every two
// minutes, also once it was dropped from the record. It had its turn with all that are gone, and
// stayed away for a quarter of an hour after the cut.
func TestThoseLostLastAreDialledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		n := simulated(t, s, 0, wan())
		s.Connect(0, 1)
		some := func(count int) map[peer.ID]struct{} {
			ids := make(map[peer.ID]struct{})
			for range count {
				id := peerOf(t)
				ids[id] = struct{}{}
			}
			return ids
		}
		for range 100 {
			n.Remember(some(1))
			time.Sleep(time.Minute)
		}
		half := some(4)
		n.Remember(half)
		time.Sleep(time.Minute)
		n.Remember(map[peer.ID]struct{}{s.Hosts[1].ID(): {}})
		r := newRejoiner(n.env, n.book, func(peer.ID) bool { return false })
		last, longest := time.Now(), time.Duration(0)
		dialled := make(map[peer.ID]bool)
		for end := time.Now().Add(3 * time.Hour); time.Now().Before(end); {
			for _, id := range r.due(time.Now()) {
				if _, lost := half[id]; lost {
					longest, last = max(longest, time.Since(last)), time.Now()
				}
				dialled[id] = true
			}
			time.Sleep(jittered(rejoinEvery))
		}
		if longest > rejoinMost+rejoinEvery {
			t.Errorf("nobody of the other half was dialled for %s", longest)
		}
		if len(dialled) != 104 {
			t.Errorf("of the 104 that are gone %d were dialled", len(dialled))
		}
	})
}

// A message to a member reaches it though libp2p has forgotten its addresses and nobody else knows
// them: they are in the file.
func TestADialTakesWhatIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		n := simulated(t, s, 0, wan())
		id := s.Hosts[1].ID()
		n.remembers(id, s.Hosts[1].Addrs()...)
		if err := n.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: id}); err != nil {
			t.Error(err)
		}
	})
}
