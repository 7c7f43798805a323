package p2p

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
)

// TestPurposes: what bytes count as. Control goes through limited relays, and does not wait for the
// upload's rate.
func TestPurposes(t *testing.T) {
	for id, want := range map[protocol.ID]purpose{
		ProtocolAdmit: control, ProtocolHello: control, ProtocolLedger: control, ProtocolPulse: control,
		ProtocolExchange: exchange, ProtocolState: state,
		ProtocolProbe: gossipAndDHT, "/meshsub/1.1.0": gossipAndDHT, "/p2pdiloco/kad/1.0.0": gossipAndDHT,
		proto.ProtoIDv2Hop: circuit, proto.ProtoIDv2Stop: circuit,
	} {
		if got := protocols[id].purpose; got != want {
			t.Errorf("%s counts as %d, want %d", id, got, want)
		}
		if protocols[id].bulky != (want == exchange || want == state || id == ProtocolProbe) {
			t.Errorf("%s is bulk: %v", id, protocols[id].bulky)
		}
	}
}
