package peers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Many members that are gone for good cost a few dials a minute, however long they have been gone,
// and each of them is dialled now and then. One that was put out of the run is not.
func TestMembersThatAreGoneCostFewDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gone = 50
		s := sim.New(t, 2, 10*time.Millisecond)
		n := dials(t, s, 0, DialConfig{Every: 30 * time.Second})
		s.Connect(0, 1)
		members := make(map[peer.ID]struct{})
		var barred peer.ID
		for i := range gone + 1 {
			id := peerOf(t)
			members[id], barred = struct{}{}, id
			n.remembers(id, multiaddr.StringCast(fmt.Sprintf("/ip4/1.2.3.4/udp/%d/quic-v1", 1+i)))
		}
		n.SetMembers(members)
		n.Book.Bar([]slot.PeerID{slot.PeerID(barred)})
		delete(members, barred)

		dials := make(map[peer.ID]int)
		count := func(minutes int) (all int) {
			for end := time.Now().Add(time.Duration(minutes) * time.Minute); time.Now().Before(end); {
				for _, id := range n.due() {
					dials[id]++
					all++
				}
				time.Sleep(n.untilRound())
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
		n := dials(t, s, 0, DialConfig{Every: 30 * time.Second})
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
			n.SetMembers(some(1))
			time.Sleep(time.Minute)
		}
		half := some(4)
		n.SetMembers(half)
		time.Sleep(time.Minute)
		n.SetMembers(map[peer.ID]struct{}{s.Hosts[1].ID(): {}})
		last, longest := time.Now(), time.Duration(0)
		dialled := make(map[peer.ID]bool)
		for end := time.Now().Add(3 * time.Hour); time.Now().Before(end); {
			for _, id := range n.due() {
				if _, lost := half[id]; lost {
					longest, last = max(longest, time.Since(last)), time.Now()
				}
				dialled[id] = true
			}
			time.Sleep(n.untilRound())
		}
		if longest > rememberedPause+rememberedEvery {
			t.Errorf("nobody of the other half was dialled for %s", longest)
		}
		if len(dialled) != 104 {
			t.Errorf("of the 104 that are gone %d were dialled", len(dialled))
		}
	})
}

// TestAddressesWithoutEnd has a stranger's answer name a peer with far more addresses than any has.
// Few are kept: of 4096 such peers they would take 400 MB.
func TestAddressesWithoutEnd(t *testing.T) {
	n := alone(t, DialConfig{Every: 30 * time.Second})
	p := peer.AddrInfo{ID: "talker"}
	for i := range 4 * maxFoundAddrs {
		p.Addrs = append(p.Addrs, multiaddr.StringCast(fmt.Sprintf("/ip4/9.9.9.9/tcp/%d", 1+i)))
	}
	n.Dialer.Found(p)
	n.with(func(d *Dialer) {
		if kept := d.mu.targets[p.ID].Addrs; cap(kept) > 2*maxFoundAddrs || !kept[0].Equal(p.Addrs[0]) {
			t.Errorf("%d addresses of one peer are kept, with room for %d", len(kept), cap(kept))
		}
	})
}

// TestDialsForNothingGrowRare has one peer that never answers found again and again, one that said
// hello once, and one whose dials end well while there is no connection: libp2p hands out one that
// has ended for as long as another dial is under way.
func TestDialsForNothingGrowRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		n := dials(t, s, 0, DialConfig{Every: 30 * time.Second})
		s.Connect(0, 1)
		refused := errors.New("refused")
		tries := func(greeted bool, ended error) (count int) {
			id := peerOf(t)
			if greeted {
				n.Greeted.Note(id, time.Now())
			}
			for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Second) {
				n.Dialer.Found(peer.AddrInfo{ID: id})
				due := false
				n.with(func(d *Dialer) {
					now, target := time.Now(), d.mu.targets[id]
					if due = !target.next.After(now); due {
						d.mu.dials++
						target.dialling, target.began = true, now
					}
				})
				if due {
					count++
					n.Dialer.ended(id, ended, time.Now())
				}
			}
			return count
		}
		if got := tries(false, refused); got < 8 || got > 16 {
			t.Errorf("who never answered is dialled %d times an hour", got)
		}
		if got := tries(true, refused); got < 100 {
			t.Errorf("who was there once is dialled %d times an hour", got)
		}
		if got, most := tries(true, nil), int(2*time.Hour/n.Dialer.cfg.Every); got < most/2 || got > most+1 {
			t.Errorf("whose connections have ended is dialled %d times an hour, of %d at most", got, most)
		}
	})
}

// TestMuteProvidersGiveWay has as many peers as are kept in mind take connections and say nothing.
// One that is found then has a place, and who was greeted keeps its own. An unresponsive one whose
// connections end is dialled ever more seldom.
func TestMuteProvidersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		n := dials(t, s, 0, DialConfig{Every: 30 * time.Second})
		s.Connect(0, 1)
		name := func(i int) peer.ID { return peer.ID(fmt.Sprintf("unresponsive %d", i)) }
		for i := range maxTargets {
			n.Dialer.Found(peer.AddrInfo{ID: name(i)})
			n.Dialer.connected(name(i), time.Now())
		}
		n.Greeted.Note(name(7), time.Now())
		found := func() bool {
			id := peerOf(t)
			n.Dialer.Found(peer.AddrInfo{ID: id})
			return isSearched(n, id)
		}
		if found() {
			t.Error("a peer that had no time for a hello yet gave way")
		}
		time.Sleep(greetWithin + time.Second)
		for range 100 {
			if !found() {
				t.Fatal("among unresponsive peers there was no place for one that was found")
			}
		}
		if !isSearched(n, name(7)) {
			t.Error("who was greeted gave way")
		}
		c := n.Dialer.mu.targets[name(7)]
		n.Dialer.lost(c.ID, time.Now())
		if c.next.After(time.Now()) {
			t.Error("who was greeted is not dialled at once")
		}
		n.Greeted.Forget(c.ID)
		for want := strangerFirst; want < 20*time.Minute; want *= 2 {
			n.Dialer.connected(c.ID, time.Now())
			time.Sleep(greetWithin + time.Second)
			n.Dialer.lost(c.ID, time.Now())
			if got := time.Until(c.next); got != min(want, strangerMost*n.Dialer.cfg.Every) {
				t.Fatalf("an unresponsive peer is dialled after %s, want %s", got, want)
			}
		}
	})
}

// TestABootstrapNodeIsOne: dialled at each of its addresses by itself, none of them would have a
// head start.
func TestABootstrapNodeIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 3, 10*time.Millisecond)
		at := func(i int, port string) string { return "/ip4/1.2.3.4/" + port + "/p2p/" + s.Hosts[i].ID().String() }
		cfg := DialConfig{Bootstrap: []string{at(1, "udp/1/quic-v1"), at(2, "tcp/2"), at(1, "tcp/1")}}
		d := dials(t, s, 0, cfg).Dialer
		noError(t, d.AddBootstrap([]string{at(1, "tcp/1"), at(2, "tcp/3"), at(0, "tcp/4")}))
		var got []string
		for _, p := range d.Nodes() {
			got = append(got, fmt.Sprint(p.ID == s.Hosts[1].ID(), p.Addrs))
		}
		want := []string{
			"true [/ip4/1.2.3.4/udp/1/quic-v1 /ip4/1.2.3.4/tcp/1]",
			"false [/ip4/1.2.3.4/tcp/2 /ip4/1.2.3.4/tcp/3]",
		}
		if !slices.Equal(got, want) {
			t.Errorf("nodes %q, want %q", got, want)
		}
		if given := d.Bootstrap().Given; len(given) != 4 {
			t.Errorf("given %q, want the four addresses of others", given)
		}
	})
}

func isSearched(n *dialling, id peer.ID) bool {
	_, found := n.Dialer.Searched()[id]
	return found
}
