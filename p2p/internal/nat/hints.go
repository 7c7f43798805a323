package nat

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	"github.com/multiformats/go-multiaddr"
)

// trustedEvery is between two looks at which peers have become members, or are none any more.
const trustedEvery = 5 * time.Second

// Hints are what a host asks while it runs. It is made before the rest of the Network, and whoever
// connects may have it ask at once: so nobody is trusted before New.
//
// Any peer could say that it has tried this peer's addresses, and with what success: AutoNATv2
// takes proof of neither. A few strangers that announce a run could so take the relays from a peer
// behind a router, or have a public one stop to relay and to announce its addresses. So only
// bootstrap nodes and members are asked.
type Hints struct {
	trusted atomic.Pointer[func(peer.ID) bool]
	relayed atomic.Pointer[[]multiaddr.Multiaddr]
}

// trusted says whether a peer is a bootstrap node or a member.
func (e Env) trusted(id peer.ID) bool {
	return e.Members.Has(id) || e.Dialer.IsNode(id)
}

func (h *Hints) trust(who func(peer.ID) bool) { h.trusted.Store(&who) }

// Relayed adds the addresses of relays to those that a host announces. libp2p leaves them out where
// one address is said to be reachable, which proves nothing yet.
func (h *Hints) Relayed(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	if more := h.relayed.Load(); more != nil && len(*more) > 0 {
		return multiaddr.Unique(slices.Concat(addrs, *more))
	}
	return addrs
}

// Peerstore makes a host's peerstore. To AutoNATv2 only trusted peers in it seem to speak it.
func (h *Hints) Peerstore() (peerstore.Peerstore, error) {
	all, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, fmt.Errorf("making a peerstore: %w", err)
	}
	return &hintedPeers{all, all, h}, nil
}

type hintedPeers struct {
	peerstore.Peerstore
	peerstore.CertifiedAddrBook
	hints *Hints
}

// SupportsProtocols implements peerstore.ProtoBook.
func (p *hintedPeers) SupportsProtocols(id peer.ID, ids ...protocol.ID) ([]protocol.ID, error) {
	if slices.Contains(ids, autonatv2.DialProtocol) {
		if trusted := p.hints.trusted.Load(); trusted == nil || !(*trusted)(id) {
			return nil, nil
		}
	}
	return p.Peerstore.SupportsProtocols(id, ids...)
}

// watch has AutoNATv2 look again at peers that became members, or are none any more.
func (h *Hints) watch(env Env) {
	news, err := env.Host.EventBus().Emitter(new(event.EvtPeerProtocolsUpdated))
	if err != nil {
		panic(err) // it is an event
	}
	defer news.Close() //nolint:errcheck // nobody is left to tell
	was := make(map[peer.ID]bool)
	env.Tasks.Every(trustedEvery, func(time.Time) {
		now := make(map[peer.ID]bool)
		for _, id := range env.Host.Network().Peers() {
			now[id] = env.trusted(id)
			if now[id] != was[id] {
				_ = news.Emit(event.EvtPeerProtocolsUpdated{Peer: id}) // it fails once closed
			}
		}
		was = now
	})
}
