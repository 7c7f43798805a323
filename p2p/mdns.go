package p2p

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
)

// mdnsService is the DNS-SD service of a run. A label holds at most 15 characters, so the name is hashed.
func mdnsService(run string) string {
	h := sha256.Sum256([]byte("p2pdiloco/run/" + run))
	return "_pd-" + hex.EncodeToString(h[:5]) + "._udp"
}

type mdnsFound func(peer.AddrInfo)

// HandlePeerFound is called by the resolver.
func (f mdnsFound) HandlePeerFound(p peer.AddrInfo) { f(p) }

// startMDNS announces this peer on the local network and reports others of the run there, until stop is called. A machine
// without multicast is no error: the DHT remains.
func (n *Network) startMDNS(run string, found func(peer.AddrInfo)) (stop func()) {
	s := mdns.NewMdnsService(n.host, mdnsService(run), mdnsFound(found))
	if err := s.Start(); err != nil {
		n.log.Warn("peers on the local network cannot be looked for", "err", err)
	}
	return func() {
		if err := s.Close(); err != nil {
			n.log.Debug("closing mDNS", "err", err)
		}
	}
}
