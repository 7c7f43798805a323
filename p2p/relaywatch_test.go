package p2p

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
)

// TestRelayThatIsTooBusyToAnswer: as long as something comes through a relay it lives, and when nothing does it is disconnected.
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
		time.Sleep(leastRelaySilence + 2*time.Second)
		if a.stillOn(relay, conn) {
			t.Error("a relay that says nothing any more is not disconnected")
		}
	})
}

// TestBytesOfRelays: what comes on their circuits is a sign of life of those that are asked.
func TestBytesOfRelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := limitedNetwork(0)
		w := newRelayWatch(n)
		n.count.relays = w
		if !w.began("relay") || w.began("relay") {
			t.Error("one ping at a time")
		}
		time.Sleep(time.Second)
		for _, c := range []struct {
			proto protocol.ID
			from  peer.ID
			want  time.Duration
		}{
			{ProtocolExchange, "relay", time.Second},
			{proto.ProtoIDv2Stop, "another", time.Second},
			{proto.ProtoIDv2Hop, "relay", 0},
		} {
			n.count.LogRecvMessageStream(1, c.proto, c.from)
			if got := w.silence("relay"); got != c.want {
				t.Errorf("silent for %s after bytes of %s from %s, want %s", got, c.proto, c.from, c.want)
			}
		}
		if len(w.mu.heard) != 1 {
			t.Error("who is not asked is remembered")
		}
	})
}
