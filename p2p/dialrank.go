package p2p

import (
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	// quicDelay is the head start that TCP gets over QUIC, relayDelay that of direct ways over those through a relay. Where all before fail, the
	// next are dialled at once.
	quicDelay  = 500 * time.Millisecond
	relayDelay = time.Second
	// tcpDelay is the head start of QUIC where that goes first.
	tcpDelay = 1500 * time.Millisecond
)

// dialRanks says in which order a peer's addresses are dialled. TCP goes first and QUIC a little later: QUIC costs three times the CPU a byte,
// but gets through where TCP does not. What leads through a relay comes last.
//
// To nodes of the public internet that may tell how a router translates this peer's QUIC port, and that may relay for it, QUIC goes first: a
// hole is punched from the port that others see on such a connection, and through it.
type dialRanks struct {
	mu struct {
		sync.Mutex
		quicFirst map[string]bool // addresses of such nodes
	}
}

// preferQUIC notes the addresses of such a node.
func (d *dialRanks) preferQUIC(addrs ...multiaddr.Multiaddr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.quicFirst == nil {
		d.mu.quicFirst = make(map[string]bool)
	}
	for _, a := range addrs {
		if manet.IsPublicAddr(a) && !isRelayed(a) && len(d.mu.quicFirst) < maxBootstrap*maxPeerAddrs {
			d.mu.quicFirst[string(a.Bytes())] = true
		}
	}
}

func (d *dialRanks) prefersQUIC(addrs []multiaddr.Multiaddr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(addrs, func(a multiaddr.Multiaddr) bool { return d.mu.quicFirst[string(a.Bytes())] })
}

// rank implements network.DialRanker.
func (d *dialRanks) rank(addrs []multiaddr.Multiaddr) []network.AddrDelay {
	var tcp, quic, relayed []multiaddr.Multiaddr
	for _, a := range addrs {
		switch {
		case isRelayed(a):
			relayed = append(relayed, a)
		case overTCP(a):
			tcp = append(tcp, a)
		default:
			quic = append(quic, a)
		}
	}
	first, then, after := tcp, quic, quicDelay
	if d.prefersQUIC(addrs) {
		first, then, after = quic, tcp, tcpDelay
	}
	if len(first) == 0 {
		after = 0
	}
	last := relayDelay
	if len(tcp)+len(quic) == 0 {
		last = 0
	}
	ranked := make([]network.AddrDelay, 0, len(addrs))
	for _, group := range []struct {
		addrs []multiaddr.Multiaddr
		delay time.Duration
	}{{first, 0}, {then, after}, {relayed, last}} {
		for _, a := range group.addrs {
			ranked = append(ranked, network.AddrDelay{Addr: a, Delay: group.delay})
		}
	}
	return ranked
}
