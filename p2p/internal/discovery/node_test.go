package discovery

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lan() settings {
	return settings{Config: Config{AdvertiseEvery: 30 * time.Second, FindEvery: 2 * time.Second}}
}

func wan() settings {
	return settings{Config: Config{AdvertiseEvery: 5 * time.Minute, FindEvery: 30 * time.Second}}
}

// settings are what a Network would tell the parts here.
type settings struct {
	Config
	Bootstrap []string
	PeersFile string
}

// node is a Discovery with the parts that a Network would give it.
type node struct {
	*Discovery
	close func() error
}

func newNode(t *testing.T, h host.Host, cfg settings) *node {
	t.Helper()
	kad, err := NewDHT(h)
	if err != nil {
		t.Fatal(err)
	}
	group := peers.NewGroup(context.Background())
	n := &node{}
	find := func(ctx context.Context, id peer.ID) (peer.AddrInfo, error) { return n.Lookup(ctx, id) }
	env := peers.NewEnv(h, group, find, peers.DialConfig{
		Bootstrap: cfg.Bootstrap, PeersFile: cfg.PeersFile, Every: cfg.FindEvery,
	}, slog.New(slog.DiscardHandler))
	n.Discovery = New(Env{env, kad}, cfg.Config)
	env.Dialer.Start()
	n.close = sync.OnceValue(func() error {
		group.Stop()
		group.Wait()
		return kad.Close()
	})
	t.Cleanup(func() { _ = n.close() })
	return n
}

// simulated makes a node on simulated host i.
func simulated(t *testing.T, s *sim.Net, i int, cfg settings) *node {
	t.Helper()
	return newNode(t, s.Hosts[i], cfg)
}

func (n *node) advertise(t *testing.T, run string) { n.Advertise(t.Context(), NewPlaces(run)) }

func (n *node) find(ctx context.Context, run string) <-chan slot.PeerID {
	found, _ := n.Find(ctx, NewPlaces(run))
	return found
}

func (n *node) id() slot.PeerID { return slot.PeerID(n.env.Host.ID()) }

func (n *node) peers() (ids []slot.PeerID) {
	for _, id := range n.env.Host.Network().Peers() {
		ids = append(ids, slot.PeerID(id))
	}
	slices.Sort(ids)
	return ids
}

func peerOf(t *testing.T) peer.ID {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
