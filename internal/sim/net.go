package sim

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/marcopolo/simnet"
)

// megabits a second of every host's link, each way: enough not to matter.
const linkBandwidth = 1_000_000_000

// Net is a simulated network.
type Net struct {
	Hosts []host.Host // host i has address 1.0.0.i or so, port 8000
	// bits a second of the links of hosts to come, each way; enough not to matter if 0
	Rate    int
	Options []libp2p.Option // of New: for hosts to come, besides those that the simulation needs

	t      testing.TB
	wire   *simnet.Simnet
	memory *memory // in place of wire
	mu     struct {
		sync.Mutex
		index  map[netip.Addr]int // of a host by its address
		cut    map[[2]int]bool    // packets from the first to the second host are dropped
		frozen map[int]bool
		// a firewall lets in packets only from hosts to which the host has sent
		walled map[int]bool
		sent   map[[2]int]bool       // from the first, which is walled, to the second
		slow   map[int]time.Duration // added to the latency of every packet to or from a host
		closed map[int]bool
	}
}

// New makes n hosts with a latency each way between any two. It must be called inside a synctest
// bubble.
func New(t testing.TB, n int, latency time.Duration) *Net {
	t.Helper()
	s := newNet(t)
	s.wire = &simnet.Simnet{
		LatencyFunc: func(p *simnet.Packet) time.Duration { return latency + s.slowness(p.From) + s.slowness(p.To) },
		Logger:      slog.New(slog.DiscardHandler),
	}
	s.wire.Start()
	t.Cleanup(s.close)
	for range n {
		s.Add()
	}
	return s
}

func newNet(t testing.TB) *Net {
	s := &Net{t: t}
	s.mu.index = make(map[netip.Addr]int)
	s.mu.cut = make(map[[2]int]bool)
	s.mu.frozen = make(map[int]bool)
	s.mu.walled = make(map[int]bool)
	s.mu.sent = make(map[[2]int]bool)
	s.mu.slow = make(map[int]time.Duration)
	s.mu.closed = make(map[int]bool)
	return s
}

// Add adds a host and returns its index.
func (s *Net) Add() int {
	s.t.Helper()
	i := len(s.Hosts)
	ip := simnet.IntToPublicIPv4(i)
	s.mu.Lock()
	s.mu.index[addrOf(ip)] = i
	s.mu.Unlock()
	h, err := s.host(i, ip)
	if err != nil {
		s.t.Fatalf("simulated host %d: %v", i, err)
	}
	s.Hosts = append(s.Hosts, h)
	return i
}

func (s *Net) host(i int, ip net.IP) (host.Host, error) {
	if s.memory != nil {
		return s.memory.add(i, ip)
	}
	return newHost(ip, func(a *net.UDPAddr) net.PacketConn {
		link := simnet.LinkSettings{BitsPerSecond: s.rate()}
		return &packetConn{
			SimConn: s.wire.NewEndpoint(a, simnet.NodeBiDiLinkSettings{Downlink: link, Uplink: link}),
			net:     s, from: i,
		}
	}, s.Options)
}

func (s *Net) rate() int { return cmp.Or(s.Rate, linkBandwidth) }

// Info returns the ID and the address of host i.
func (s *Net) Info(i int) peer.AddrInfo { return *host.InfoFromHost(s.Hosts[i]) }

// Addr returns the full multiaddr of host i.
func (s *Net) Addr(i int) string {
	s.t.Helper()
	info := s.Info(i)
	addrs, err := peer.AddrInfoToP2pAddrs(&info)
	if err != nil || len(addrs) == 0 {
		s.t.Fatalf("simulated host %d has no address: %v", i, err)
	}
	return addrs[0].String()
}

// Connect connects host i to host j.
func (s *Net) Connect(i, j int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Hosts[i].Connect(ctx, s.Info(j)); err != nil {
		s.t.Fatalf("connecting simulated hosts %d and %d: %v", i, j, err)
	}
}

// ConnectAll connects every host to every other.
func (s *Net) ConnectAll() {
	s.t.Helper()
	for i := range s.Hosts {
		for j := range i {
			s.Connect(i, j)
		}
	}
}

// Cut drops all packets between hosts i and j from now on.
func (s *Net) Cut(i, j int) { s.set(true, [2]int{i, j}, [2]int{j, i}) }

// CutOneWay drops the packets from host i to host j from now on.
func (s *Net) CutOneWay(i, j int) { s.set(true, [2]int{i, j}) }

// Heal undoes Cut and CutOneWay.
func (s *Net) Heal(i, j int) { s.set(false, [2]int{i, j}, [2]int{j, i}) }

// Isolate cuts host i off from all others that exist now.
func (s *Net) Isolate(i int) { s.set(true, s.around(i)...) }

// Rejoin undoes Isolate.
func (s *Net) Rejoin(i int) { s.set(false, s.around(i)...) }

// around returns the links of host i to all others, both ways.
func (s *Net) around(i int) (links [][2]int) {
	for j := range s.Hosts {
		if j != i {
			links = append(links, [2]int{i, j}, [2]int{j, i})
		}
	}
	return links
}

// Freeze drops all packets to and from host i, those of hosts that come later included, as while
// its process is stopped. Thaw does not undo Cut.
func (s *Net) Freeze(i int) { s.freeze(i, true) }

// Thaw undoes Freeze.
func (s *Net) Thaw(i int) { s.freeze(i, false) }

func (s *Net) freeze(i int, frozen bool) {
	s.mu.Lock()
	s.mu.frozen[i] = frozen
	s.mu.Unlock()
	s.changed()
}

// changed lets connections find out, after a while, that their link is cut.
func (s *Net) changed() {
	if s.memory != nil {
		s.memory.recheck()
	}
}

// Wall puts host i of New behind a firewall, as a router that translates addresses is one: a packet
// comes in only from an address to which one has gone out.
func (s *Net) Wall(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.walled[i] = true
}

// Slow adds to the latency of every packet to or from host i; 0 undoes it.
func (s *Net) Slow(i int, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.slow[i] = by
}

// Close closes host i, telling its neighbours, as a process that ends well does. To end a host that
// tells nobody, call Isolate first.
func (s *Net) Close(i int) {
	s.t.Helper()
	s.mu.Lock()
	done := s.mu.closed[i]
	s.mu.closed[i] = true
	s.mu.Unlock()
	if done {
		return
	}
	if err := s.Hosts[i].Close(); err != nil {
		s.t.Errorf("closing simulated host %d: %v", i, err)
	}
}

func (s *Net) set(cut bool, links ...[2]int) {
	s.mu.Lock()
	for _, l := range links {
		s.mu.cut[l] = cut
	}
	s.mu.Unlock()
	s.changed()
}

// dropped says whether a packet from host i to an address is lost.
func (s *Net) dropped(i int, to net.Addr) bool {
	s.mu.Lock()
	j, ok := s.at(to)
	if ok && s.mu.walled[i] {
		s.mu.sent[[2]int{i, j}] = true
	}
	stopped := ok && s.mu.walled[j] && !s.mu.sent[[2]int{j, i}]
	s.mu.Unlock()
	return ok && (stopped || s.lost(i, j))
}

// lost says whether packets from host i to host j are lost.
func (s *Net) lost(i, j int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.cut[[2]int{i, j}] || s.mu.frozen[i] || s.mu.frozen[j]
}

func (s *Net) slowness(at net.Addr) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.at(at)
	if !ok {
		return 0
	}
	return s.mu.slow[i]
}

func (s *Net) slownessOf(i int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.slow[i]
}

func (s *Net) hostOf(a netip.Addr) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.mu.index[a.Unmap()]
	return i, ok
}

// at returns the host of an address. mu is held.
func (s *Net) at(a net.Addr) (int, bool) {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return 0, false
	}
	i, ok := s.mu.index[u.AddrPort().Addr().Unmap()]
	return i, ok
}

func (s *Net) close() {
	for i := range s.Hosts {
		s.Close(i)
	}
	// what is dialled for a circuit ends by itself
	time.Sleep(client.DialRelayTimeout + time.Second)
	if s.wire != nil {
		s.wire.Close()
	}
}
