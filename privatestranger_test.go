package p2pdiloco

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// toStrangers is what a peer of a private run says to strangers, by protocol; of gossip the ID begins so. A protocol that is not here has been
// forgotten: is it behind the gate?
var toStrangers = map[string]struct {
	most  int    // bytes
	never string // is in none of them
}{
	p2p.ProtocolAdmit:    {200, "sim"}, // a refusal, which does not name the run
	p2p.ProtocolHello:    {},
	p2p.ProtocolKey:      {},
	p2p.ProtocolLedger:   {},
	p2p.ProtocolExchange: {},
	p2p.ProtocolPulse:    {},
	p2p.ProtocolMoved:    {},
	p2p.ProtocolState:    {},
	p2p.ProtocolProbe:    {},
	privateGossip:        {},
	// What libp2p serves says nothing of runs; of the DHT see below.
	"/p2pdiloco/kad/1.0.0": {4 << 10, "sim"},
	"/ipfs/ping/1.0.0":     {100, "sim"},
	"/ipfs/id/1.0.0":       {8 << 10, "sim"},
	"/ipfs/id/push/1.0.0":  {},
}

// A stranger that knows the run's name, its ID and all protocols gets nothing of a private run but refusals.
func TestAStrangerLearnsNothingOfAPrivateRun(t *testing.T) {
	inPrivate(t, 100, 2, 10*time.Millisecond, func(s *swarm, founder *simPeer) {
		guest := s.guest(s.invite(founder, InviteOptions{}))
		s.start(guest)
		s.reach(2, founder, guest)
		n := founder.node.Load()
		x := newStranger(s)
		topic := x.listen(n.RunID())
		told := x.eavesdrop(s.net.Hosts[founder.host].Mux().Protocols())
		protocols := s.net.Hosts[founder.host].Mux().Protocols()
		if len(protocols) != len(toStrangers) {
			t.Errorf("the peer serves %q, of %d that there may be", protocols, len(toStrangers))
		}
		for _, proto := range protocols {
			may, listed := toStrangers[string(proto)]
			if !listed {
				t.Errorf("%s: what does it say to a stranger?", proto)
			}
			for _, b := range x.greetings(proto) {
				if answer := x.hear(founder, proto, b); len(answer) > may.most || may.never != "" && strings.Contains(string(answer), may.never) {
					t.Errorf("%s answers a stranger with %q", proto, answer)
				}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for p := range s.boot.Discover(ctx, "sim") {
			t.Errorf("peer %s is found by the run's name", p)
		}
		s.reach(6, founder, guest)
		if len(x.gathered()) > 0 || len(topic.Peers()) > 0 || told.Load() > 0 {
			t.Error("the stranger hears the run's gossip")
		}
	})
}

// eavesdrop speaks all these protocols from now on, and counts what it is told.
func (x *stranger) eavesdrop(protocols []protocol.ID) *atomic.Int64 {
	var told atomic.Int64
	for _, proto := range protocols {
		if !strings.HasPrefix(string(proto), "/p2pdiloco/") || strings.HasPrefix(string(proto), "/p2pdiloco/kad") || proto == p2p.ProtocolAdmit {
			continue
		}
		x.s.net.Hosts[x.host].SetStreamHandler(proto, func(st network.Stream) {
			n, _ := st.Read(make([]byte, 1)) // streams of gossip have no end
			told.Add(int64(n))
			_ = st.Reset()
		})
	}
	return &told
}

// greetings are what might open a protocol's mouth.
func (x *stranger) greetings(proto protocol.ID) [][]byte {
	all := [][]byte{{0, 0, 0, 0}, []byte(strings.Repeat("\x00", 100)), []byte("\x00\x00\x00\x21\x01" + strings.Repeat("\x07", 32))}
	if proto == p2p.ProtocolHello {
		all = append(all, []byte("\x00\x00\x00\x07\x08\x01\x12\x03sim"))
	}
	return all
}

// hear writes b to a peer, and is all that comes back.
func (x *stranger) hear(p *simPeer, proto protocol.ID, b []byte) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	st, err := x.s.net.Hosts[x.host].NewStream(ctx, peer.ID(x.s.id(p)), proto)
	if err != nil {
		return nil
	}
	defer st.Reset() //nolint:errcheck // all was read
	_ = st.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = st.Write(b)
	_ = st.CloseWrite()
	all, _ := io.ReadAll(st)
	return all
}
