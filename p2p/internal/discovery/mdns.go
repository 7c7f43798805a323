package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
)

// mdnsService is the DNS-SD service of a run. A label holds at most 15 characters, so the name is
// hashed.
func mdnsService(run string) string {
	h := sha256.Sum256([]byte("p2pdiloco/run/" + run))
	return "_pd-" + hex.EncodeToString(h[:5]) + "._udp"
}

type mdnsFound func(peer.AddrInfo)

// HandlePeerFound is called by the resolver.
func (f mdnsFound) HandlePeerFound(p peer.AddrInfo) { f(p) }

// localSearch is what runs on the local network for a finder, by place.
type localSearch struct {
	f     *finder
	stops map[string]func()
}

// at searches under these names, and no others any more.
func (l localSearch) at(ctx context.Context, names []string) {
	for name, stop := range l.stops {
		if !slices.Contains(names, name) {
			stop()
			delete(l.stops, name)
		}
	}
	for _, name := range names {
		if l.f.cfg.MDNS && l.stops[name] == nil {
			l.stops[name] = l.f.startMDNS(name, func(p peer.AddrInfo) { l.f.offer(ctx, p) })
		}
	}
}

// startMDNS announces this peer on the local network and reports others of the run there, until
// stop is called. A machine without multicast is no error: the DHT remains.
func (f *finder) startMDNS(run string, found func(peer.AddrInfo)) (stop func()) {
	s := mdns.NewMdnsService(f.env.Host, mdnsService(run), mdnsFound(found))
	if err := s.Start(); err != nil {
		f.env.Log.Warn("peers on the local network cannot be looked for", "err", err)
	}
	return func() {
		if err := s.Close(); err != nil {
			f.env.Log.Debug("closing mDNS", "err", err)
		}
	}
}
