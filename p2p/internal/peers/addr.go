package peers

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// IsRelayed says whether an address leads through a relay.
func IsRelayed(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_CIRCUIT)
	return err == nil
}

// Relay is the relay through which an address leads.
func Relay(a multiaddr.Multiaddr) (peer.ID, bool) {
	if !IsRelayed(a) {
		return "", false
	}
	text, err := a.ValueForProtocol(multiaddr.P_P2P)
	if err != nil {
		return "", false
	}
	id, err := peer.Decode(text)
	return id, err == nil
}

// OverTCP says whether an address is one of TCP, without a relay.
func OverTCP(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_TCP)
	return err == nil && !IsRelayed(a)
}

// OverQUIC says whether an address is one of QUIC, without a relay.
func OverQUIC(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_QUIC_V1)
	return err == nil && !IsRelayed(a)
}

// IsPlainTCP says whether an address is an IP address and a TCP port, and nothing else.
func IsPlainTCP(a multiaddr.Multiaddr) bool {
	p := a.Protocols()
	return len(p) == 2 && (p[0].Code == multiaddr.P_IP4 || p[0].Code == multiaddr.P_IP6) && p[1].Code == multiaddr.P_TCP
}

// FromEverywhere says whether an address is one that nearly all peers can dial. Where only IPv6
// gets through, peers without IPv6 need a relay.
func FromEverywhere(a multiaddr.Multiaddr) bool {
	var names []string
	for _, p := range a.Protocols() {
		if p.Code != multiaddr.P_P2P {
			names = append(names, p.Name)
		}
	}
	if len(names) < 2 || !slices.Contains([]string{"ip4", "dns4", "dns"}, names[0]) {
		return false
	}
	way := names[1:]
	return slices.Equal(way, []string{"tcp"}) || slices.Equal(way, []string{"udp", "quic-v1"})
}

// IP is the IP address in a; the zero value if there is none.
func IP(a multiaddr.Multiaddr) netip.Addr {
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// OfNet is the IP address of a; the zero value if it has none.
func OfNet(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.IPNet:
		ip = a.IP
	case *net.TCPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

const subscriberBits = 56 // of an IPv6 address that one subscriber has

// Subscriber is the part of an address that its holder cannot choose: an IPv4 address, of IPv6 the
// /56.
func Subscriber(a multiaddr.Multiaddr) string {
	ip := IP(a)
	if ip.Is6() {
		if site, err := ip.WithZone("").Prefix(subscriberBits); err == nil {
			return site.String()
		}
	}
	return ip.String()
}

// Site is the network that an address is in, as small as one is given out (IPv4: the /24, IPv6: the
// /48): a party that has one address there may have all. Addresses without an IP are one site, the
// zero value.
func Site(a multiaddr.Multiaddr) netip.Prefix {
	ip := IP(a)
	bits := 48
	if ip.Is4() {
		bits = 24
	}
	site, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return site
}

// first are the first n different addresses of some lists.
func first(n int, lists ...[]multiaddr.Multiaddr) (addrs []multiaddr.Multiaddr) {
	for _, a := range slices.Concat(lists...) {
		if len(addrs) < n && !slices.ContainsFunc(addrs, a.Equal) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// Parse leaves out what is no address: a configuration's addresses were validated before.
func Parse(given []string) (addrs []multiaddr.Multiaddr) {
	for _, s := range given {
		if a, err := multiaddr.NewMultiaddr(s); err == nil {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// Announcing puts the given addresses in front of those that are announced.
func Announcing(given []string) func([]multiaddr.Multiaddr) []multiaddr.Multiaddr {
	fixed := Parse(given)
	return func(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr { return append(slices.Clone(fixed), addrs...) }
}

const (
	// quicDelay is the head start that TCP gets over QUIC, relayDelay that of direct ways over
	// those through a relay. Where all before fail, the next are dialled at once.
	quicDelay  = 500 * time.Millisecond
	relayDelay = time.Second
	// tcpDelay is the head start of QUIC where that goes first.
	tcpDelay = 1500 * time.Millisecond
	// maxQUICFirst bounds the addresses where QUIC goes first: those of all bootstrap nodes.
	maxQUICFirst = 1024
)

// Ranks says in which order a peer's addresses are dialled. TCP goes first and QUIC a little later:
// QUIC costs three times the CPU a byte, but gets through where TCP does not. Addresses through a
// relay come last.
//
// To nodes of the public internet that may report how a router translates this peer's QUIC port,
// and that may relay for it, QUIC goes first: a hole is punched from the port that others see on
// such a connection, and through it.
type Ranks struct {
	mu struct {
		sync.Mutex
		quicFirst map[string]bool // addresses of such nodes
	}
}

// NewRanks prefers TCP everywhere.
func NewRanks() *Ranks {
	r := &Ranks{}
	r.mu.quicFirst = make(map[string]bool)
	return r
}

// PreferQUIC notes the addresses of such a node.
func (r *Ranks) PreferQUIC(addrs ...multiaddr.Multiaddr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range addrs {
		if manet.IsPublicAddr(a) && !IsRelayed(a) && len(r.mu.quicFirst) < maxQUICFirst {
			r.mu.quicFirst[string(a.Bytes())] = true
		}
	}
}

// PrefersQUIC says whether one of the addresses is of such a node.
func (r *Ranks) PrefersQUIC(addrs ...multiaddr.Multiaddr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(addrs, func(a multiaddr.Multiaddr) bool { return r.mu.quicFirst[string(a.Bytes())] })
}

// Rank implements network.DialRanker.
func (r *Ranks) Rank(addrs []multiaddr.Multiaddr) []network.AddrDelay {
	quicFirst, after := r.PrefersQUIC(addrs...), quicDelay
	if quicFirst {
		after = tcpDelay
	}
	var first, then, relayed []multiaddr.Multiaddr
	for _, a := range addrs {
		switch {
		case IsRelayed(a):
			relayed = append(relayed, a)
		case OverTCP(a) != quicFirst:
			first = append(first, a)
		default:
			then = append(then, a)
		}
	}
	ranked := make([]network.AddrDelay, 0, len(addrs))
	add := func(group []multiaddr.Multiaddr, delay time.Duration) {
		if len(ranked) == 0 {
			delay = 0
		}
		for _, a := range group {
			ranked = append(ranked, network.AddrDelay{Addr: a, Delay: delay})
		}
	}
	add(first, 0)
	add(then, after)
	add(relayed, relayDelay)
	return ranked
}
