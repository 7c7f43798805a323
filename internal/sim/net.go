package sim

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"slices"
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
	Hosts   []host.Host   // host i has address 1.0.0.i or so, port 8000
	Latency time.Duration // each way between any two
	// bits a second of the links of hosts to come, each way; enough not to matter if 0
	Rate    int
	Options []libp2p.Option // for hosts to come, besides those that the simulation needs

	t    testing.TB
	wire *simnet.Simnet // nil: in memory
	mu   struct {
		sync.Mutex
		nodes []*node         // by host
		cut   map[[2]int]bool // packets from the first to the second host are dropped
		sent  map[[2]int]bool // the first host, which is walled, has sent to the second
		conns []*memoryConn   // both ends of each
	}
}

// New makes n hosts with a latency each way between any two. It must be called inside a synctest
// bubble.
func New(t testing.TB, n int, latency time.Duration) *Net {
	t.Helper()
	return newNet(t, n, latency, &simnet.Simnet{Logger: slog.New(slog.DiscardHandler)})
}

// NewMemory is New, with hosts of which no packets are simulated: what one writes to a stream comes
// out at the other end after the time that it takes on the links. There is neither encryption nor
// loss nor a handshake but for its round trips, which makes it many times faster. Swarm, identify
// and multistream are libp2p's.
func NewMemory(t testing.TB, n int, latency time.Duration) *Net {
	t.Helper()
	return newNet(t, n, latency, nil)
}

func newNet(t testing.TB, n int, latency time.Duration, wire *simnet.Simnet) *Net {
	t.Helper()
	s := &Net{t: t, Latency: latency, wire: wire}
	s.mu.cut, s.mu.sent = make(map[[2]int]bool), make(map[[2]int]bool)
	if wire != nil {
		wire.LatencyFunc = s.route
		wire.Start()
	}
	t.Cleanup(s.close)
	for range n {
		s.Add()
	}
	return s
}

// Add adds a host and returns its index.
func (s *Net) Add() int {
	s.t.Helper()
	i := len(s.Hosts)
	n := &node{
		net: s, index: i, ip: simnet.IntToPublicIPv4(i).To4(), rate: cmp.Or(s.Rate, linkBandwidth),
		conns: make(chan *memoryConn),
	}
	n.listening, n.stop = context.WithCancel(context.Background())
	s.mu.Lock()
	s.mu.nodes = append(s.mu.nodes, n)
	s.mu.Unlock()
	h, err := n.host()
	if err != nil {
		s.t.Fatalf("simulated host %d: %v", i, err)
	}
	n.id = h.ID()
	s.Hosts = append(s.Hosts, h)
	return i
}

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

func (s *Net) set(cut bool, links ...[2]int) {
	s.change(func() {
		for _, l := range links {
			s.mu.cut[l] = cut
		}
	})
}

// Freeze drops all packets to and from host i, those of hosts that come later included, as while
// its process is stopped. Thaw does not undo Cut.
func (s *Net) Freeze(i int) { s.change(func() { s.mu.nodes[i].frozen = true }) }

// Thaw undoes Freeze.
func (s *Net) Thaw(i int) { s.change(func() { s.mu.nodes[i].frozen = false }) }

// Wall puts host i of New behind a firewall, as a router that translates addresses is one: a packet
// comes in only from an address to which one has gone out.
func (s *Net) Wall(i int) { s.change(func() { s.mu.nodes[i].walled = true }) }

// Slow adds to the latency of every packet to or from host i; 0 undoes it.
func (s *Net) Slow(i int, by time.Duration) { s.change(func() { s.mu.nodes[i].slow = by }) }

// change changes the network. Connections find out after a while that their link is cut.
func (s *Net) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.recheck()
}

// Close closes host i, telling its neighbours, as a process that ends well does. To end a host that
// tells nobody, call Isolate first.
func (s *Net) Close(i int) {
	s.t.Helper()
	if err := s.Hosts[i].Close(); err != nil {
		s.t.Errorf("closing simulated host %d: %v", i, err)
	}
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

// headers is the size of those of UDP and IPv4.
const headers = 28

// Sent returns the bytes that a host has sent in packets, whether they came or not.
func (s *Net) Sent(i int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.nodes[i].sockets {
		n += c.Stats().BytesSent + headers*c.Stats().PacketsSent
	}
	return n
}

// route returns the latency of a packet. One that is lost goes nowhere.
func (s *Net) route(p *simnet.Packet) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to := s.find(p.From.(*net.UDPAddr).IP), s.find(p.To.(*net.UDPAddr).IP)
	if from == nil || to == nil {
		return s.Latency
	}
	there, back := [2]int{from.index, to.index}, [2]int{to.index, from.index}
	if from.walled {
		s.mu.sent[there] = true
	}
	if s.lost(from, to) || to.walled && !s.mu.sent[back] {
		p.To = &net.UDPAddr{}
	}
	return s.delay(from, to)
}

// The lock is held for what follows.

// find returns the host of an address; nil: it is of none.
func (s *Net) find(ip net.IP) *node {
	if i := slices.IndexFunc(s.mu.nodes, func(n *node) bool { return n.ip.Equal(ip) }); i >= 0 {
		return s.mu.nodes[i]
	}
	return nil
}

// lost says whether packets from one host to another are lost.
func (s *Net) lost(from, to *node) bool {
	return s.mu.cut[[2]int{from.index, to.index}] || from.frozen || to.frozen
}

// broken says whether packets between two hosts are lost in either direction.
func (s *Net) broken(a, b *node) bool { return s.lost(a, b) || s.lost(b, a) }

// delay returns the latency from one host to another.
func (s *Net) delay(from, to *node) time.Duration { return s.Latency + from.slow + to.slow }
