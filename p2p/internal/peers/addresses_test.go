package peers

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Any peer may say in an answer of the DHT where another one is. As long as that one is away such
// words take neither its place in the peers file nor in a ticket: after a restart it would be
// looked for at false addresses only.
func TestHearsayDoesNotReplaceWhatAConnectionHasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		file := filepath.Join(t.TempDir(), "peers")
		n := dials(t, s, 0, DialConfig{PeersFile: file, Every: 30 * time.Second})
		n.Dialer.Start()
		id, addrs := s.Hosts[1].ID(), s.Hosts[1].Addrs()
		n.SetMembers(map[peer.ID]struct{}{id: {}})
		s.Connect(0, 1)
		time.Sleep(100 * time.Millisecond) // it is gone before the file is written
		s.Close(1)
		time.Sleep(2 * rememberEvery)
		var lies []multiaddr.Multiaddr
		for i := range maxPeerAddrs {
			lies = append(lies, multiaddr.StringCast(fmt.Sprintf("/ip4/9.0.0.%d/tcp/1", i)))
		}
		s.Hosts[0].Peerstore().AddAddrs(id, lies, peerstore.TempAddrTTL)
		time.Sleep(rememberEvery + time.Second)
		peers, err := loadPeers(file)
		if err != nil || len(peers) != 1 || !slices.EqualFunc(peers[0].Addrs, addrs,
			multiaddr.Multiaddr.Equal) {
			t.Errorf("remembered is %v, %v, want the addresses %v", peers, err, addrs)
		}
		anything := func(string) bool { return true }
		if got := n.Contacts([]slot.PeerID{slot.PeerID(id)}, 20, anything); len(got) != len(addrs) {
			t.Errorf("a ticket has %v", got)
		}
	})
}

// A peer that nobody has met may still be found by what is said of it, and what is said last counts
// until there is a connection.
func TestHearsayIsBetterThanNothing(t *testing.T) {
	n := alone(t, DialConfig{})
	id := peerOf(t)
	n.Book.Note(id)
	for _, said := range []string{"/ip4/1.2.3.4/tcp/1", "/ip4/1.2.3.4/tcp/2"} {
		n.Host.Peerstore().ClearAddrs(id)
		n.Host.Peerstore().AddAddr(id, multiaddr.StringCast(said), time.Hour)
		if got := n.Book.refresh(); len(got) != 1 || !got[0].Heard || got[0].Addrs[0].String() != said {
			t.Errorf("remembered is %v, want %s as hearsay", got, said)
		}
	}
}

// Of a machine with more addresses than are kept those are kept at which others find it, whatever
// their bytes are.
func TestTheBestAddressesAreKept(t *testing.T) {
	var many []multiaddr.Multiaddr
	add := func(format string, n int) {
		for i := range n {
			many = append(many, multiaddr.StringCast(fmt.Sprintf(format, i)))
		}
	}
	add("/ip4/172.17.0.%d/tcp/1", 20)
	add("/ip4/10.0.0.%d/udp/1/quic-v1", 20)
	add("/ip4/127.0.0.1/tcp/%d", 3)
	want := []string{
		"/ip4/192.168.1.7/tcp/1", "/ip4/203.1.113.1/tcp/1", "/ip6/2620:fe::fe/tcp/1", "/dns4/node.example.com/tcp/1",
		"/ip4/203.1.113.9/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit",
	}
	for _, a := range slices.Backward(want) {
		many = append(many, multiaddr.StringCast(a))
	}
	got := bestAddrs(many, map[netip.Addr]bool{netip.MustParseAddr("192.168.1.7"): true})
	if len(got) != maxPeerAddrs {
		t.Errorf("%d addresses are kept", len(got))
	}
	for i, a := range want {
		if got[i].String() != a {
			t.Errorf("address %d is %s, want %s", i, got[i], a)
		}
	}
	if slices.ContainsFunc(got, func(a multiaddr.Multiaddr) bool { return addrRank(a) == rankLoopback }) {
		t.Errorf("loopback is kept before addresses of the local network: %v", got)
	}
}
