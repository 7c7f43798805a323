package p2p

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestACopiedIdentity: two Networks with one identity file, on both transports, learn of each other
// through a third one.
func TestACopiedIdentity(t *testing.T) {
	t.Parallel()
	cfg := LAN()
	witness := loopback(t, cfg)
	cfg.IdentityFile = filepath.Join(t.TempDir(), "identity")
	first, second := loopback(t, cfg), loopback(t, cfg)
	for _, n := range []*Network{first, second} {
		n.Host().Peerstore().AddAddrs(peer.ID(witness.ID()), witness.Host().Addrs(), time.Hour)
		if err := n.Host().Connect(bounded(t), peer.AddrInfo{ID: peer.ID(witness.ID())}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []*Network{first, second} {
		select {
		case <-n.Twin():
		case <-bounded(t).Done():
			t.Fatal("a process never learned of its twin")
		}
	}
	select {
	case <-witness.Twin():
		t.Error("the witness takes itself for copied")
	default:
	}
}
