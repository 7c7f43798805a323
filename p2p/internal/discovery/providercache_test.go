package discovery

import (
	"encoding/binary"
	"testing"

	"github.com/libp2p/go-libp2p-kad-dht/records"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
)

// What a flood of providers of one run may take is what the store may hold, also for a run that was
// asked about before.
func TestProvidersOfARunAreBounded(t *testing.T) {
	book, err := pstoremem.NewPeerstore()
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	store := newAnnouncements()
	m, err := records.NewProviderManager("self", book, store, providerOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	key := []byte("a run")
	for i := range maxAnnouncements + 1000 {
		id := peer.ID(binary.BigEndian.AppendUint64([]byte("provider"), uint64(i)))
		noError(t, m.AddProvider(t.Context(), key, peer.AddrInfo{ID: id}))
		if i > 0 {
			continue
		}
		if _, err := m.GetProviders(t.Context(), key); err != nil { // now it is asked about
			t.Fatal(err)
		}
	}
	ps, err := m.GetProviders(t.Context(), key)
	if err != nil || len(ps) == 0 || len(ps) > maxAnnouncements {
		t.Errorf("%d providers are held, of at most %d: %v", len(ps), maxAnnouncements, err)
	}
}
