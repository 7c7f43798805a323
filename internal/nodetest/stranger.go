package nodetest

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// LedgerKind is the kind of announcements that carry ledger messages.
const LedgerKind = 1

// Stranger is a libp2p host that is no peer of the run. It knows the run's name, its protocols and
// all that is announced in it.
type Stranger struct {
	S    *Swarm
	Host int
	Rand *rand.ChaCha8
	Mu   struct {
		sync.Mutex
		Heard map[p2pdiloco.PeerID][][]byte // sealed messages, by author
	}
}

// NewStranger adds a host that is connected to every peer.
func NewStranger(s *Swarm) *Stranger {
	x := StrangerAt(s, s.Net.Add())
	for _, p := range s.Peers {
		s.Net.Connect(x.Host, p.Host)
	}
	return x
}

// StrangerAt makes a stranger of an existing host.
func StrangerAt(s *Swarm, host int) *Stranger {
	x := &Stranger{S: s, Host: host, Rand: rand.NewChaCha8([32]byte{1})}
	x.Mu.Heard = make(map[p2pdiloco.PeerID][][]byte)
	return x
}

// Listen takes part in the run's gossip and keeps all it hears.
func (x *Stranger) Listen(run p2pdiloco.Root) *gossip.Topic {
	x.S.T.Helper()
	topic, err := gossip.Join(x.S.T.Context(), x.S.Net.Hosts[x.Host], gossip.Config{
		Topic: "/p2pdiloco/run/" + run.String(), Kinds: []uint8{LedgerKind}, Heartbeat: gossip.LANHeartbeat,
		Deliver: func(from slot.PeerID, _ uint8, body []byte) {
			x.Mu.Lock()
			defer x.Mu.Unlock()
			if len(x.Mu.Heard[from]) < 100 {
				x.Mu.Heard[from] = append(x.Mu.Heard[from], body)
			}
		},
	})
	if err != nil {
		x.S.T.Fatal(err)
	}
	x.S.T.Cleanup(func() { _ = topic.Close() })
	return topic
}

// Gathered returns all announcements received from some authors, or from all if none is named.
func (x *Stranger) Gathered(authors ...p2pdiloco.PeerID) (all [][]byte) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	for from, messages := range x.Mu.Heard {
		if len(authors) == 0 || slices.Contains(authors, from) {
			all = append(all, messages...)
		}
	}
	return all
}

// signer signs with the stranger's key, in its own name.
type signer struct{ X *Stranger }

// Signer signs ledger messages in the stranger's name.
func (x *Stranger) Signer() wire.Signer { return signer{x} }

func (n signer) ID() p2pdiloco.PeerID { return p2pdiloco.PeerID(n.X.S.Net.Hosts[n.X.Host].ID()) }

func (n signer) Sign(b []byte) ([]byte, error) {
	h := n.X.S.Net.Hosts[n.X.Host]
	return h.Peerstore().PrivKey(h.ID()).Sign(b)
}

// Greetings are messages that might make a protocol answer.
func (x *Stranger) Greetings(proto protocol.ID) [][]byte {
	all := [][]byte{
		{0, 0, 0, 0},
		[]byte(strings.Repeat("\x00", 100)),
		[]byte("\x00\x00\x00\x21\x01" + strings.Repeat("\x07", 32)),
	}
	if proto == p2p.ProtocolHello {
		all = append(all, []byte("\x00\x00\x00\x07\x08\x01\x12\x03sim"))
	}
	return all
}

// Ask writes b to a peer, and is all that comes back.
func (x *Stranger) Ask(p *Peer, proto protocol.ID, b []byte) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	st, err := x.S.Net.Hosts[x.Host].NewStream(ctx, peer.ID(x.S.ID(p)), proto)
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

// ToStrangers lists what a peer of a private run answers to strangers, by protocol; the ID of
// gossip begins like its entry. If a new protocol is missing here, check whether it is behind the
// gate.
var ToStrangers = map[string]struct {
	Most  int    // bytes
	Never string // is in none of them
}{
	p2p.ProtocolAdmit:         {200, "sim"}, // a refusal, which does not name the run
	p2p.ProtocolHello:         {},
	p2p.ProtocolKey:           {},
	p2p.ProtocolLedger:        {},
	p2p.ProtocolExchange:      {},
	p2p.ProtocolPulse:         {},
	p2p.ProtocolState:         {},
	p2p.ProtocolProbe:         {},
	p2p.ProtocolAudit:         {},
	"/p2pdiloco/gossip/1.0.0": {},
	// The protocols that libp2p serves reveal nothing about runs. For the DHT see below.
	"/p2pdiloco/kad/1.0.0": {4 << 10, "sim"},
	"/ipfs/ping/1.0.0":     {100, "sim"},
	"/ipfs/id/1.0.0":       {8 << 10, "sim"},
	"/ipfs/id/push/1.0.0":  {},
	// Members relay for each other: whoever else asks gets a status in a few bytes.
	"/libp2p/circuit/relay/0.2.0/hop":  {10, "sim"},
	"/libp2p/circuit/relay/0.2.0/stop": {10, "sim"},
}
