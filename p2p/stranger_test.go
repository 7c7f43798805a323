package p2p

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// served is what a Network's host serves, in alphabetical order, before a run adds its own.
// Whatever is new here is open to strangers until somebody has thought about it.
var served = []protocol.ID{
	"/ipfs/id/1.0.0", "/ipfs/id/push/1.0.0", "/ipfs/ping/1.0.0", "/libp2p/autonat/2/dial-back",
	"/libp2p/autonat/2/dial-request",
	"/libp2p/circuit/relay/0.2.0/stop", "/p2pdiloco/admit/1.0.0", "/p2pdiloco/exchange/1.0.0",
	"/p2pdiloco/hello/1.0.0",
	"/p2pdiloco/kad/1.0.0",
	"/p2pdiloco/key/1.0.0", "/p2pdiloco/ledger/3.0.0-dev", "/p2pdiloco/probe/1.0.0",
	"/p2pdiloco/pulse/1.0.0", "/p2pdiloco/state/1.0.0",
}

// refuser admits nobody.
type refuser struct{}

func (refuser) Ask(slot.PeerID) []byte                    { return nil }
func (refuser) Answer(slot.PeerID, []byte) ([]byte, bool) { return []byte("no"), false }
func (refuser) Judge(slot.PeerID, []byte, []byte) error   { return peers.ErrNotAdmitted }

// TestStrangersAtEveryProtocol has one without a token begin as much as it can with everything that
// a peer of a private run serves: it takes little memory, nothing that is handled gets a stream,
// and what it hears is a refusal.
func TestStrangersAtEveryProtocol(t *testing.T) {
	n, x := loopback(t, Config{}), loopback(t, Config{})
	noError(t, n.SetGate(refuser{}))
	for _, proto := range []string{ProtocolHello, ProtocolKey, ProtocolLedger, ProtocolExchange, ProtocolState} {
		n.Handle(proto, func(slot.PeerID, wire.Stream) { t.Errorf("%s is handled", proto) })
	}
	all := n.env.Host.Mux().Protocols()
	if slices.Sort(all); !slices.Equal(all, served) {
		t.Fatalf("a host serves %q", all)
	}
	to := peer.AddrInfo{ID: n.env.Host.ID(), Addrs: n.env.Host.Addrs()}
	noError(t, x.env.Host.Connect(t.Context(), to))
	y := loopback(t, Config{Bootstrap: n.Addrs()})
	before := heap()
	for _, proto := range all {
		for range 32 {
			if s, err := x.env.Host.NewStream(t.Context(), n.env.Host.ID(), proto); err == nil {
				defer s.Reset() //nolint:errcheck // the test is over
				_, _ = s.Write(append([]byte{0, 0, 0xff, 0xff}, make([]byte, 4<<10)...))
				if proto == ProtocolAdmit || !ours(proto) {
					continue // it may wait for more
				}
				if b := all4K(s); len(b) > 0 {
					t.Errorf("%s says %q to a stranger", proto, b)
				}
			}
		}
	}
	if grown := int64(heap()) - int64(before); grown > 64<<20 {
		t.Errorf("%d MiB are held for a stranger", grown>>20)
	}
	if got, err := roundTrip(t.Context(), y, n.ID(), ProtocolAdmit, []byte{0, 0, 0, 1, 7}); err != nil ||
		!bytes.Equal(got, []byte("\x00\x00\x00\x02no")) {
		t.Errorf("who asks for admission hears %q, %v", got, err)
	}
}

// ours says whether a protocol is behind the gate.
func ours(proto protocol.ID) bool {
	return strings.HasPrefix(string(proto), "/p2pdiloco/") && proto != "/p2pdiloco/kad/1.0.0"
}

// all4K is what comes on a stream before it ends.
func all4K(s network.Stream) []byte {
	_ = s.SetReadDeadline(time.Now().Add(time.Minute))
	b, _ := io.ReadAll(io.LimitReader(s, 4<<10))
	return b
}
