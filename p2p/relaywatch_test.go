package p2p

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
)

// TestRelayThatIsTooBusyToAnswer: as long as something comes through a relay it lives, and when
// nothing does it is disconnected.
func TestRelayThatIsTooBusyToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 2, always())
		s.reserved(t, 1)
		a, b, relay := s.peers[0], s.peers[1], peer.ID(s.relays[0].ID())
		s.Hosts[0].SetStreamHandler(ping.ID, func(s network.Stream) {
			_, _ = io.Copy(io.Discard, s)
		})
		b.Handle(protocolEcho, echo)
		stream, err := a.Open(t.Context(), b.ID(), protocolEcho)
		if err != nil {
			t.Fatal(err)
		}
		conn := a.Host().Network().ConnsToPeer(relay)[0].ID()
		for range 30 {
			if _, err := stream.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(stream, make([]byte, 1)); err != nil {
				t.Fatalf("the relay was disconnected though it relays: %v", err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(7 * time.Second)
		if slices.ContainsFunc(a.Host().Network().ConnsToPeer(relay),
			func(c network.Conn) bool { return c.ID() == conn }) {
			t.Error("a relay that says nothing any more is not disconnected")
		}
	})
}

// TestBytesOfRelays: what comes on their circuits is a sign of life of relays, and nothing else is.
func TestBytesOfRelays(t *testing.T) {
	n := &Network{}
	n.count.upload, n.count.download = limits.NewBucket(0), limits.NewBucket(0)
	var seen []peer.ID
	n.count.relays = relaySigns(func(id peer.ID) { seen = append(seen, id) })
	for _, c := range []struct {
		proto protocol.ID
		from  peer.ID
	}{{ProtocolExchange, "relay"}, {proto.ProtoIDv2Stop, "another"}, {proto.ProtoIDv2Hop, "relay"}} {
		n.count.LogRecvMessageStream(1, c.proto, c.from)
	}
	if !slices.Equal(seen, []peer.ID{"another", "relay"}) {
		t.Errorf("signs of life of %v", seen)
	}
}
