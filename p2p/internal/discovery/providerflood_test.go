package discovery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// TestAFloodOfProviders has 500 peers that nobody can reach announce the run, which costs a
// stranger nothing but names. A newcomer that the DHT tells of them all still finds the run's own
// peers soon.
func TestAFloodOfProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bogus, peers = 500, 3
		s := sim.New(t, 1+peers, 20*time.Millisecond)
		newcomer := simulated(t, s, 0, wan())
		key, err := runKey("run")
		if err != nil {
			t.Fatal(err)
		}
		announce := func(p peer.AddrInfo) {
			noError(t, newcomer.env.DHT.ProviderStore().AddProvider(t.Context(), key.Hash(), p))
		}
		for i := range bogus {
			id := peerOf(t)
			nowhere := multiaddr.StringCast(fmt.Sprintf("/ip4/9.9.%d.%d/udp/4001/quic-v1", i>>8, i&255))
			announce(peer.AddrInfo{ID: id, Addrs: []multiaddr.Multiaddr{nowhere}})
		}
		for i := range peers {
			simulated(t, s, 1+i, wan())
			announce(s.Info(1 + i))
		}
		collect(t, newcomer.find(t.Context(), "run"), peers, bogus/maxDials*firstDial+10*time.Second)
	})
}

// TestAddressesWithoutEnd has a stranger's answer name a peer with far more addresses than any has.
// Few are kept: of 4096 such peers they would take 400 MB.
func TestAddressesWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		n := simulated(t, s, 0, wan())
		f := &finder{env: n.env, cfg: n.cfg, book: n.book, candidates: make(map[peer.ID]*candidate), dials: maxDials}
		p := peer.AddrInfo{ID: "talker"}
		for i := range 4 * maxFoundAddrs {
			p.Addrs = append(p.Addrs, multiaddr.StringCast(fmt.Sprintf("/ip4/9.9.9.9/tcp/%d", 1+i)))
		}
		f.consider(t.Context(), p)
		if kept := f.candidates[p.ID].info.Addrs; cap(kept) > 2*maxFoundAddrs || !kept[0].Equal(p.Addrs[0]) {
			t.Errorf("%d addresses of one peer are kept, with room for %d", len(kept), cap(kept))
		}
	})
}

// TestDialsForNothingGrowRare has one peer that never answers found again and again, one that did
// answer once, and one whose dials end well while there is no connection: libp2p hands out one that
// has ended for as long as another dial is under way.
func TestDialsForNothingGrowRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		n := simulated(t, s, 0, wan())
		tries := func(met bool, ended error) (count int) {
			id := peerOf(t)
			f := &finder{env: n.env, cfg: n.cfg, book: n.book, candidates: make(map[peer.ID]*candidate)}
			c := &candidate{info: peer.AddrInfo{ID: id}, met: met}
			f.candidates[id] = c
			for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Second) {
				c.found = time.Now()
				if f.nextDial(time.Now()) == c {
					count++
					f.dialEnded(dialResult{id, ended})
				}
			}
			return count
		}
		if got := tries(false, errUnderWay); got < 8 || got > 16 {
			t.Errorf("who never answered is dialled %d times an hour", got)
		}
		if got := tries(true, errUnderWay); got < 100 {
			t.Errorf("who was there once is dialled %d times an hour", got)
		}
		if got, most := tries(true, nil), int(2*time.Hour/n.cfg.FindEvery); got < most/2 || got > most+1 {
			t.Errorf("whose connections have ended is dialled %d times an hour, of %d at most", got, most)
		}
	})
}

// TestMuteProvidersGiveWay has as many peers as are kept in mind take connections and say nothing.
// One that is found then has a place, and who was greeted keeps its own. An unresponsive one whose
// connections end is dialled ever more seldom.
func TestMuteProvidersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		n := simulated(t, s, 0, wan())
		f := &finder{env: n.env, cfg: n.cfg, book: n.book, candidates: make(map[peer.ID]*candidate), dials: maxDials}
		name := func(i int) peer.ID { return peer.ID(fmt.Sprintf("unresponsive %d", i)) }
		for i := range maxCandidates {
			f.candidates[name(i)] = &candidate{info: peer.AddrInfo{ID: name(i)}}
			f.connection(change{name(i), true})
			f.pending = nil
		}
		n.env.Greeted.Note(name(7), time.Now())
		found := func() bool {
			id := peerOf(t)
			f.consider(t.Context(), peer.AddrInfo{ID: id})
			return f.candidates[id] != nil
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
		if f.candidates[name(7)] == nil {
			t.Error("who was greeted gave way")
		}
		c := f.candidates[name(7)]
		f.connection(change{c.info.ID, false})
		if c.next.After(time.Now()) {
			t.Error("who was greeted is not dialled at once")
		}
		n.env.Greeted.Forget(c.info.ID)
		for want := 2 * redialFirst; want < 20*time.Minute; want *= 2 {
			f.connection(change{c.info.ID, true})
			time.Sleep(greetWithin + time.Second)
			f.connection(change{c.info.ID, false})
			if got := time.Until(c.next); got != min(want, redialMost*n.cfg.FindEvery) {
				t.Fatalf("an unresponsive peer is dialled after %s, want %s", got, want)
			}
		}
	})
}
