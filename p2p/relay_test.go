package p2p

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// relayNet is a simulated network with relays as its first hosts and peers after them, of which no
// two can send each other a packet.
type relayNet struct {
	*sim.Net
	relays, peers []*Network
}

func openRelays(t *testing.T, relays, peers int, cfg RelayConfig, more ...libp2p.Option) *relayNet {
	t.Helper()
	s := &relayNet{Net: sim.New(t, relays, 10*time.Millisecond)}
	s.Options = append([]libp2p.Option{libp2p.ForceReachabilityPrivate()}, more...)
	boot := LAN()
	for i := range relays {
		c := LAN()
		c.Relay = cfg
		s.relays = append(s.relays, simulated(t, s.Net, i, c))
		boot.Bootstrap = append(boot.Bootstrap, s.Addr(i))
	}
	for range peers {
		i := s.Add()
		for j := relays; j < i; j++ {
			s.Cut(i, j)
		}
		s.peers = append(s.peers, simulated(t, s.Net, i, boot))
	}
	return s
}

// reserved waits until each peer is reachable through so many relays, and lets the peers know each
// other's addresses.
func (s *relayNet) reserved(t *testing.T, relays int) {
	t.Helper()
	eventually(t, 30*time.Second, "reservations", func() bool {
		for _, n := range s.peers {
			if len(n.Reach().Relays) != relays {
				return false
			}
		}
		return true
	})
	time.Sleep(time.Second) // simulated: addresses go round
	for _, a := range s.peers {
		for _, b := range s.peers {
			a.Host().Peerstore().AddAddrs(peer.ID(b.ID()), b.Host().Addrs(), time.Hour)
		}
	}
}

// eventually looks every 100 ms until something is so.
func eventually(t *testing.T, within time.Duration, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, within)
		}
	}
}

func always() RelayConfig { return RelayConfig{Serve: true, Open: true} }

// pathTo is how a reaches b now.
func pathTo(a, b *Network) Path {
	for _, p := range a.Paths() {
		if p.Peer == b.ID() {
			return p
		}
	}
	return Path{}
}

func TestPeersThatCannotConnectMeetThroughARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 2, always())
		s.reserved(t, 1)
		a, b := s.peers[0], s.peers[1]
		b.Handle(ProtocolExchange, echo)
		data := bytes.Repeat([]byte("model"), 1<<20) // forty times what libp2p's relays let pass
		began := time.Now()
		got, err := roundTrip(t.Context(), a, b.ID(), ProtocolExchange, data)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes of %d came back: %v", len(got), len(data), err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s for %d bytes each way", took, len(data))
		}
		if p := pathTo(a, b); p.Way != WayRelayed || p.Relay != s.relays[0].ID() || p.Limited {
			t.Errorf("path %+v, want relayed by %s without limits", p, s.relays[0].ID())
		}
		if p := pathTo(a, s.relays[0]); p.Way != WayDirect || p.Transport != "quic-v1" {
			t.Errorf("path to the relay %+v", p)
		}
		if got, want := a.Relayed(), map[slot.PeerID]bool{b.ID(): true, s.relays[0].ID(): false}; !maps.Equal(got,
			want) {
			t.Errorf("ways through relays %v, want %v", got, want)
		}
		if r := a.Traffic().Relayed; r.Sent < uint64(len(data)) || r.Received < uint64(len(data)) {
			t.Errorf("counted %+v through the relay, want %d and more each way", r, len(data))
		}
		if c := s.relays[0].Reach().Carried; c.Sent < 2*uint64(len(data)) || c.Received < 2*uint64(len(data)) {
			t.Errorf("the relay counted %+v, want %d and more each way", c, 2*len(data))
		}
	})
}

// TestWritesTakeAsLongAsTheRelay: what a peer measures when it sends through a relay is the relay's
// rate, but for what the buffers between them hold.
func TestWritesTakeAsLongAsTheRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := always()
		cfg.Total = 2_500_000
		s := openRelays(t, 1, 2, cfg)
		s.reserved(t, 1)
		s.peers[1].Handle(ProtocolExchange, func(_ slot.PeerID, s wire.Stream) { _, _ = io.Copy(io.Discard, s) })
		to, err := s.peers[0].OpenBulk(t.Context(), s.peers[1].ID(), ProtocolExchange)
		if err != nil {
			t.Fatal(err)
		}
		const total = 20_000_000
		began := time.Now()
		for sent, frame := 0, make([]byte, 1_000_000); sent < total; sent += len(frame) {
			if _, err := to.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		if rate := total / time.Since(began).Seconds(); rate > 1.2*float64(cfg.Total) {
			t.Errorf("writes went at %.0f bytes a second, the relay's rate is %d", rate, cfg.Total)
		}
		_ = to.Reset()
	})
}

func TestRelayServesItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 3, RelayConfig{Serve: true, Runs: []string{"run"}})
		member, other, stranger := s.peers[0], s.peers[1], s.peers[2]
		says := func(run string) func(slot.PeerID, Hello) (Hello, error) {
			return func(_ slot.PeerID, theirs Hello) (Hello, error) {
				if theirs.Run != run {
					return Hello{}, errors.New("another run")
				}
				return Hello{Run: run}, nil
			}
		}
		member.SetHello(says("run"))
		other.SetHello(says("other run"))
		eventually(t, 2*time.Minute, "a reservation of the member",
			func() bool { return len(member.Reach().Relays) == 1 })
		for _, n := range []*Network{other, stranger} {
			if _, err := client.Reserve(t.Context(), n.Host(), s.Info(0)); err == nil {
				t.Errorf("%s got a reservation", n.ID())
			}
			if len(n.Reach().Relays) > 0 {
				t.Errorf("%s is reachable through %v", n.ID(), n.Reach().Relays)
			}
			n.Host().Peerstore().AddAddrs(peer.ID(member.ID()), member.Host().Addrs(), time.Hour)
			if err := n.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: peer.ID(member.ID())}); err == nil {
				t.Errorf("%s connected to the member through the relay", n.ID())
			}
		}
	})
}
