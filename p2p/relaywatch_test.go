package p2p

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
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
