package discovery

import (
	"context"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Env is what discovery needs of the Network around it.
type Env struct {
	peers.Env
	DHT *dht.IpfsDHT
}

// Config says where peers are looked for, and how often. All of it is set.
type Config struct {
	MDNS           bool
	AdvertiseEvery time.Duration // longest time between two announcements
	FindEvery      time.Duration // longest time between two searches
}

// Discovery finds peers and announces this one.
type Discovery struct {
	env Env
	cfg Config
}

// New makes a Discovery.
func New(env Env, cfg Config) *Discovery { return &Discovery{env: env, cfg: cfg} }

// Lookup adds the addresses that are remembered of a peer to those that the host knows, and asks
// the DHT where it is.
func (d *Discovery) Lookup(ctx context.Context, id peer.ID) (peer.AddrInfo, error) {
	known, _ := d.env.Book.Addrs(id)
	d.env.Host.Peerstore().AddAddrs(id, known, peerstore.TempAddrTTL)
	return d.env.DHT.FindPeer(ctx, id)
}

// Advertise announces in the DHT, until ctx or the task group ends, that this peer takes part in a
// run, under every name of its places and under those that follow. It returns at once.
//
// The first announcements come close together, and one follows each newcomer while the swarm is
// small: a record put while only the bootstrap node was known would die with it.
func (d *Discovery) Advertise(ctx context.Context, places *Places) {
	a := &advertiser{env: d.env, every: d.cfg.AdvertiseEvery, places: places, came: peers.NewSignal()}
	d.env.Tasks.Go(func() {
		ctx, cancel := d.env.Tasks.Join(ctx)
		defer cancel()
		defer d.env.OnConnection(a.onConnection)()
		a.loop(ctx)
	})
}

// Find looks for the peers that announce a run under some places, in the DHT, on the local network
// and among those remembered, connects to them, and sends the ID of each one when it is connected,
// and again when it is after its last connection ended. It goes on until ctx or the task group
// ends, then the channel is closed.
//
// looked says whether this peer has looked around: the DHT was searched since the last bootstrap
// node was connected, each peer that was found has had its first chance, and those that answered
// were sent. On a busy machine that takes a while. A peer is not alone before.
func (d *Discovery) Find(ctx context.Context, places *Places) (found <-chan slot.PeerID, looked func() bool) {
	f := newFinder(d.env, d.cfg, places)
	ended, end := context.WithCancel(context.Background())
	serve := func() {
		defer close(f.out)
		defer end()
		ctx, cancel := d.env.Tasks.Join(ctx)
		defer cancel()
		f.serve(ctx)
	}
	if !d.env.Tasks.Go(serve) {
		close(f.out)
		end()
	}
	return f.out, func() bool { return f.hasLooked(ended) }
}
