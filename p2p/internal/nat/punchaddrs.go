package nat

import (
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

// punchAddrs says which addresses holes are punched between. It implements holepunch.AddrFilter.
type punchAddrs struct {
	guesses func(seen []multiaddr.Multiaddr) []multiaddr.Multiaddr // of TCP
	mu      struct {
		sync.Mutex
		quic bool // this peer has announced an address of QUIC, the last time
	}
}

// FilterLocal adds TCP's addresses to those that are announced.
func (p *punchAddrs) FilterLocal(_ peer.ID, addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	quic := slices.ContainsFunc(addrs, addr.OverQUIC)
	p.mu.Lock()
	p.mu.quic = quic
	p.mu.Unlock()
	return multiaddr.Unique(append(addrs, p.guesses(addrs)...))
}

// FilterRemote leaves TCP's addresses out where both have QUIC: of two connections that come about
// at once, the end of one might be taken for the peer's.
func (p *punchAddrs) FilterRemote(_ peer.ID, addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.quic && slices.ContainsFunc(addrs, addr.OverQUIC) {
		return slices.DeleteFunc(slices.Clone(addrs), addr.OverTCP)
	}
	return addrs
}
