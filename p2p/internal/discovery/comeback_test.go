package discovery

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A bootstrap node that was started again knows nobody. Members dial it though they have each
// other, and announce themselves there at once: a newcomer that knows only it finds them.
func TestABootstrapNodeThatComesBackIsTold(t *testing.T) {
	for _, more := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) { comeBack(t, 5*time.Minute+more) })
	}
}

// comeBack takes the bootstrap node away for a time. The peers' own pauses of 30 s are in another
// phase each time.
func comeBack(t *testing.T, away time.Duration) {
	s := sim.New(t, 4, 10*time.Millisecond)
	boot := simulated(t, s, 0, wan())
	cfg := wan()
	cfg.Bootstrap = []string{s.Addr(0)}
	for i := 1; i <= 2; i++ {
		n := simulated(t, s, i, cfg)
		n.advertise(t, "run")
		n.find(t.Context(), "run")
	}
	time.Sleep(10 * time.Minute) // announcements and searches are far apart by now

	noError(t, boot.close())
	for i := 1; i <= 3; i++ {
		s.Cut(0, i)
	}
	for _, id := range s.Hosts[0].Network().Peers() {
		noError(t, s.Hosts[0].Network().ClosePeer(id))
	}
	newcomer := simulated(t, s, 3, cfg)
	found := newcomer.find(t.Context(), "run")
	time.Sleep(away)

	again := simulated(t, s, 0, wan())
	for i := 1; i <= 3; i++ {
		s.Heal(0, i)
	}
	began := time.Now()
	collect(t, found, 2, bootstrapRetryMax+3*time.Second)
	t.Logf("a newcomer found both members %s after the bootstrap node came back", time.Since(began))
	time.Sleep(bootstrapRetryMax + 3*time.Second - time.Since(began))
	key, err := runKey("run")
	if err != nil {
		t.Fatal(err)
	}
	held, err := again.env.DHT.ProviderStore().GetProviders(t.Context(), key.Hash())
	if err != nil || len(held) != 2 {
		t.Errorf("the bootstrap node holds announcements of %v, %v", held, err)
	}
}

// What is learned of peers is on the disk within seconds, also while ever more is learned, and not
// written all the time.
func TestNewsOfPeersIsSavedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		file := filepath.Join(t.TempDir(), "peers")
		cfg := lan()
		cfg.PeersFile = file
		n := simulated(t, s, 0, cfg)
		meet := func() peer.ID {
			id := peerOf(t)
			s.Hosts[0].Peerstore().AddAddr(id, multiaddr.StringCast("/ip4/1.2.3.4/tcp/1"), time.Hour)
			n.book.note(id)
			return id
		}
		saved := func() []remembered {
			peers, err := loadPeers(file)
			if err != nil {
				t.Fatal(err)
			}
			return peers
		}
		first, writes := meet(), 0
		var last time.Time
		for range 40 { // 20 s of a newcomer every half second
			time.Sleep(500 * time.Millisecond)
			meet()
			if info, err := os.Stat(file); err == nil && !info.ModTime().Equal(last) {
				last = info.ModTime()
				writes++
			}
		}
		if got := len(saved()); got < 30 || writes > 8 {
			t.Errorf("of 41 peers %d were saved, in %d writes", got, writes)
		}
		time.Sleep(2 * rememberPause)
		emitter, err := s.Hosts[0].EventBus().Emitter(new(event.EvtPeerIdentificationCompleted))
		if err != nil {
			t.Fatal(err)
		}
		defer emitter.Close()
		s.Hosts[0].Peerstore().AddAddr(first, multiaddr.StringCast("/ip4/1.2.3.4/tcp/2"), time.Hour)
		noError(t, emitter.Emit(event.EvtPeerIdentificationCompleted{Peer: first}))
		time.Sleep(rememberSoon + rememberPause)
		i := slices.IndexFunc(saved(), func(p remembered) bool { return p.ID == first })
		if i < 0 || len(saved()[i].Addrs) != 2 {
			t.Errorf("another address of %s is not saved", slot.PeerID(first).Short())
		}
	})
}
