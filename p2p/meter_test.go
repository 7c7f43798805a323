package p2p

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/peer"
	pbv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"
)

// TestStrangersAtARelayTakeNothing: who is not served may ask as often as it likes, and what the
// relay has for others is all there.
func TestStrangersAtARelayTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 1, RelayConfig{
			Serve: true, Runs: []string{"run"}, Total: MinUpload,
		})
		relay, stranger := s.relays[0], s.peers[0]
		s.Connect(1, 0)
		ask := &pbv2.HopMessage{
			Type: pbv2.HopMessage_CONNECT.Enum(),
			Peer: &pbv2.Peer{Id: []byte(s.Info(0).ID), Addrs: [][]byte{make([]byte, 3900)}},
		}
		for range 100 {
			hop, err := stranger.Host().NewStream(t.Context(), peer.ID(relay.ID()), proto.ProtoIDv2Hop)
			if err != nil {
				t.Fatal(err)
			}
			var answer pbv2.HopMessage
			if err := errors.Join(util.NewDelimitedWriter(hop).WriteMsg(ask),
				util.NewDelimitedReader(hop, 4096).ReadMsg(&answer)); err != nil {
				t.Fatal(err)
			}
			if answer.GetStatus() != pbv2.Status_PERMISSION_DENIED {
				t.Fatalf("a stranger is told %s", answer.GetStatus())
			}
			_ = hop.Reset()
			if ahead := relay.nat.Backlog(); ahead > 0 {
				t.Fatalf("others wait %s for what a stranger asked", ahead)
			}
		}
	})
}
