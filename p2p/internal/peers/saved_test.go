package peers

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

// What is learned of peers is on the disk within seconds, also while ever more is learned, and not
// written all the time.
func TestNewsOfPeersIsSavedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		file := filepath.Join(t.TempDir(), "peers")
		n := dials(t, s, 0, DialConfig{PeersFile: file, Every: 2 * time.Second})
		n.Dialer.Start()
		meet := func() peer.ID {
			id := peerOf(t)
			s.Hosts[0].Peerstore().AddAddr(id, multiaddr.StringCast("/ip4/1.2.3.4/tcp/1"), time.Hour)
			n.Book.Note(id)
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
