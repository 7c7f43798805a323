package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
	"github.com/multiformats/go-multiaddr"
)

const (
	localLook     = 5 * time.Second // between looks at this machine's addresses
	localRetry    = 5 * time.Second // after the first start that failed; doubles
	localRetryMax = time.Minute
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

// localSearch is what runs on the local network for a finder.
type localSearch struct {
	f     *finder
	start func(run string, found mdnsFound) (io.Closer, error)
}

// begin searches under these names until the function returned is called.
func (l localSearch) begin(ctx context.Context, names []string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, name := range names {
		if l.f.cfg.MDNS {
			all.Go(func() { l.announce(ctx, name) })
		}
	}
	return func() { cancel(); all.Wait() }
}

// announce announces this peer on the local network and reports others of the run there, until ctx
// ends. The service tells the addresses of the moment of its start, on the interfaces that are up
// then, and cannot start where none is. So it is started anew when there are other addresses, and
// after a start that failed. A machine without multicast is no error: the DHT remains.
func (l localSearch) announce(ctx context.Context, name string) {
	retry := localRetry
	for first := true; ctx.Err() == nil; first = false {
		at := l.f.localAddrs()
		service, err := l.start(name, func(p peer.AddrInfo) { l.f.offer(ctx, p) })
		switch {
		case err == nil:
			retry = localRetry
			l.awaitChange(ctx, at, 0)
			if err := service.Close(); err != nil {
				l.f.env.Log.Debug("closing mDNS", "err", err)
			}
			continue
		case first:
			l.f.env.Log.Warn("peers on the local network cannot be looked for; trying again", "err", err)
		default:
			l.f.env.Log.Debug("peers on the local network cannot be looked for", "err", err)
		}
		l.awaitChange(ctx, at, retry)
		retry = min(2*retry, localRetryMax)
	}
}

// awaitChange returns when this machine has other addresses than these, when ctx ends, or after a
// time that is not 0.
func (l localSearch) awaitChange(ctx context.Context, had []multiaddr.Multiaddr, most time.Duration) {
	look := time.NewTicker(localLook)
	defer look.Stop()
	for began := time.Now(); most == 0 || time.Since(began) < most; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if !slices.EqualFunc(had, l.f.localAddrs(), multiaddr.Multiaddr.Equal) {
			return
		}
	}
}

// localAddrs are the addresses that a service would tell, sorted.
func (f *finder) localAddrs() []multiaddr.Multiaddr {
	addrs, err := f.env.Host.Network().InterfaceListenAddresses()
	if err != nil {
		return nil // as if there were none
	}
	return slices.SortedFunc(slices.Values(addrs), multiaddr.Multiaddr.Compare)
}

// startMDNS starts one service.
func (f *finder) startMDNS(run string, found mdnsFound) (io.Closer, error) {
	s := mdns.NewMdnsService(f.env.Host, mdnsService(run), found)
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
