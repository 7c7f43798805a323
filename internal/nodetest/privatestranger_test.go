package nodetest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// A stranger that knows the run's name, its ID and all protocols gets nothing of a private run but
// refusals.
func TestAStrangerLearnsNothingOfAPrivateRun(t *testing.T) {
	RunPrivate(t, 100, 2, 10*time.Millisecond, func(s *Swarm, founder *Peer) {
		guest := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
		s.Start(guest)
		s.Reach(2, founder, guest)
		n := founder.Node.Load()
		x := NewStranger(s)
		topic := x.Listen(n.RunID())
		told := eavesdrop(x, s.Net.Hosts[founder.Host].Mux().Protocols())
		protocols := s.Net.Hosts[founder.Host].Mux().Protocols()
		if len(protocols) != len(toStrangers) {
			t.Errorf("the peer serves %q, of %d that there may be", protocols, len(toStrangers))
		}
		for _, proto := range protocols {
			most, listed := toStrangers[string(proto)]
			if !listed {
				t.Errorf("%s: what does it say to a stranger?", proto)
			}
			for _, b := range greetings {
				if answer := x.Ask(founder, proto, b); len(answer) > most || strings.Contains(string(answer), "sim") {
					t.Errorf("%s answers a stranger with %q", proto, answer)
				}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		found, _ := s.Boot.Discover(ctx, p2p.NewPlaces("sim"))
		for p := range found {
			t.Errorf("peer %s is found by the run's name", p)
		}
		s.Reach(6, founder, guest)
		if len(x.Gathered()) > 0 || len(topic.Peers()) > 0 || told.Load() > 0 {
			t.Error("the stranger hears the run's gossip")
		}
	})
}

// eavesdrop speaks all these protocols from now on, and counts what it is told.
func eavesdrop(x *Stranger, protocols []protocol.ID) *atomic.Int64 {
	var told atomic.Int64
	for _, proto := range protocols {
		if !strings.HasPrefix(string(proto), "/p2pdiloco/") || strings.HasPrefix(string(proto), "/p2pdiloco/kad") ||
			proto == p2p.ProtocolAdmit {
			continue
		}
		x.S.Net.Hosts[x.Host].SetStreamHandler(proto, func(st network.Stream) {
			n, _ := st.Read(make([]byte, 1)) // streams of gossip have no end
			told.Add(int64(n))
			_ = st.Reset()
		})
	}
	return &told
}

// greetings are messages that might make a protocol answer. The last is a hello's.
var greetings = [][]byte{
	{0, 0, 0, 0},
	[]byte(strings.Repeat("\x00", 100)),
	[]byte("\x00\x00\x00\x21\x01" + strings.Repeat("\x07", 32)),
	[]byte("\x00\x00\x00\x07\x08\x01\x12\x03sim"),
}

// toStrangers lists how many bytes a peer of a private run answers to strangers at most, by
// protocol; the ID of gossip begins like its entry. No answer has the run's name in it. If a new
// protocol is missing here, check whether it is behind the gate.
var toStrangers = map[string]int{
	p2p.ProtocolAdmit:         200, // a refusal
	p2p.ProtocolHello:         0,
	p2p.ProtocolKey:           0,
	p2p.ProtocolLedger:        0,
	p2p.ProtocolExchange:      0,
	p2p.ProtocolPulse:         0,
	p2p.ProtocolState:         0,
	p2p.ProtocolProbe:         0,
	p2p.ProtocolAudit:         0,
	"/p2pdiloco/gossip/1.0.0": 0,
	// The protocols that libp2p serves reveal nothing about runs. For the DHT see below.
	"/p2pdiloco/kad/1.0.0": 4 << 10,
	"/ipfs/ping/1.0.0":     100,
	"/ipfs/id/1.0.0":       8 << 10,
	"/ipfs/id/push/1.0.0":  0,
	// Members relay for each other: whoever else asks gets a status in a few bytes.
	"/libp2p/circuit/relay/0.2.0/hop":  10,
	"/libp2p/circuit/relay/0.2.0/stop": 10,
}
