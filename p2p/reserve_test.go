package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestReservationEndsWithItsConnection: a relay that was away for a moment has forgotten who could
// be reached through it, and is asked again.
func TestReservationEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 2, always())
		s.reserved(t, 1)
		a, b := s.peers[0], s.peers[1]
		for range 3 {
			noError(t, a.Host().Network().ClosePeer(peer.ID(s.relays[0].ID())))
			s.Connect(1, 0) // before anybody looked
			time.Sleep(5 * time.Second)
			if err := b.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: peer.ID(a.ID())}); err != nil {
				t.Errorf("the peer cannot be reached through the relay any more: %v", err)
			}
			_ = b.Host().Network().ClosePeer(peer.ID(a.ID()))
			time.Sleep(10 * time.Second) // a failed dial is not tried again at once
		}
	})
}

// TestRelaysAreKeptUntilSomebodyComes: that others say that they have reached this peer is not
// enough for it to do without relays, nor is a stranger that comes, nor whoever comes from where
// this peer has gone itself: a router lets that in.
func TestRelaysAreKeptUntilSomebodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 1, always())
		s.reserved(t, 1)
		n := s.peers[0]
		said, err := n.Host().EventBus().Emitter(new(event.EvtHostReachableAddrsChanged), eventbus.Stateful)
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		if err := said.Emit(event.EvtHostReachableAddrsChanged{
			Reachable: []multiaddr.Multiaddr{multiaddr.StringCast("/ip4/9.9.9.9/udp/1/quic-v1")},
		}); err != nil {
			t.Fatal(err)
		}
		held := func(want bool, when string) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := len(n.Reach().Relays) == 1; got != want || !n.Reach().Public {
				t.Errorf("%s it holds its place with the relay: %v, public: %v", when, got, n.Reach().Public)
			}
		}
		add := func(member bool) (i int) {
			i = s.Add()
			simulated(t, s.Net, i, LAN())
			if member {
				n.Protect([]slot.PeerID{slot.PeerID(s.Hosts[i].ID())})
			}
			return i
		}
		comes := func(i int) {
			t.Helper()
			// not through the relay, as it announces
			at := peer.AddrInfo{ID: n.Host().ID(), Addrs: n.Host().Network().ListenAddresses()}
			noError(t, s.Hosts[i].Connect(t.Context(), at))
		}
		held(true, "when nobody has come")
		comes(add(false))
		held(true, "when a stranger has come")
		met := add(true)
		s.Connect(1, met)
		held(true, "when it has gone to a member")
		n.Protect(nil) // it is not dialled again
		for _, ends := range [][2]int{{1, met}, {met, 1}} {
			_ = s.Hosts[ends[0]].Network().ClosePeer(s.Hosts[ends[1]].ID())
		}
		time.Sleep(time.Second)
		n.Protect([]slot.PeerID{slot.PeerID(s.Hosts[met].ID())})
		comes(met)
		held(true, "when a member has come to which it had gone before")
		comes(add(true))
		held(false, "when a member has come")
	})
}

// TestARelaysClockDecidesNothing: a relay says until when a place is kept by its own clock. Where
// that is slow, or this peer's is fast, the place is held all the same, and renewed in time.
func TestARelaysClockDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, 10*time.Millisecond)
		asked := make(chan time.Time, 100)
		s.Hosts[0].SetStreamHandler(proto.ProtoIDv2Hop, func(st network.Stream) {
			defer st.Close()
			var msg pb.HopMessage
			if util.NewDelimitedReader(st, 4096).ReadMsg(&msg) != nil {
				return
			}
			ended := uint64(time.Now().Add(-30 * time.Minute).Unix())
			_ = util.NewDelimitedWriter(st).WriteMsg(&pb.HopMessage{
				Type: pb.HopMessage_STATUS.Enum(), Status: pb.Status_OK.Enum(),
				Reservation: &pb.Reservation{Expire: &ended},
			})
			asked <- time.Now()
		})
		cfg := LAN()
		cfg.Bootstrap = []string{s.Addr(0)}
		s.Options = []libp2p.Option{libp2p.ForceReachabilityPrivate()}
		n := simulated(t, s, s.Add(), cfg)
		for range 70 {
			time.Sleep(time.Minute)
			if len(n.Reach().Relays) != 1 {
				t.Fatal("the place is not held")
			}
		}
		if times := len(asked); times < 2 || times > 3 {
			t.Errorf("in 70 minutes it was asked for %d times", times)
		}
	})
}
