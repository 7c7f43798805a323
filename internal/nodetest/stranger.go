package nodetest

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// LedgerKind is the kind of announcements that carry ledger messages.
const LedgerKind = 1

// Stranger is a libp2p host that is no peer of the run. It knows the run's name, its protocols and
// all that is announced in it.
type Stranger struct {
	S    *Swarm
	Host int
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
	x := &Stranger{S: s, Host: host}
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

// ID implements wire.Signer, in the stranger's own name.
func (x *Stranger) ID() p2pdiloco.PeerID { return p2pdiloco.PeerID(x.S.Net.Hosts[x.Host].ID()) }

// Sign implements wire.Signer.
func (x *Stranger) Sign(b []byte) ([]byte, error) {
	h := x.S.Net.Hosts[x.Host]
	return h.Peerstore().PrivKey(h.ID()).Sign(b)
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
