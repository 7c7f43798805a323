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
	DHT   *dht.IpfsDHT
	Ranks *peers.Ranks
}

// Config says where peers are looked for, and how often. All of it is set.
type Config struct {
	Bootstrap      []string // multiaddrs ending in /p2p/ID
	PeersFile      string   // remembers addresses; empty: nothing is remembered
	MDNS           bool
	AdvertiseEvery time.Duration // longest time between two announcements
	FindEvery      time.Duration // longest time between two searches
	// Announced says that this peer's addresses are announced: no bootstrap node needs to report
	// how a router translates its ports.
	Announced bool
}

// Discovery finds peers and announces this one.
type Discovery struct {
	env  Env
	cfg  Config
	book *addressBook
	boot *bootstrapper
}

// New reads the peers file. The caller calls Start.
func New(env Env, cfg Config) *Discovery {
	book := newAddressBook(env, cfg.PeersFile)
	return &Discovery{env: env, cfg: cfg, book: book, boot: newBootstrapper(env, cfg, book)}
}

// Start begins to dial the bootstrap nodes and the members that are missed, and to write the peers
// file.
func (d *Discovery) Start() {
	d.env.Tasks.Go(d.book.run)
	d.env.Tasks.Go(d.boot.run)
	d.env.Tasks.Go(newRejoiner(d.env, d.book, d.boot.isNode).run)
}

// Remember notes which peers are members of the run. They are dialled now and then while they are
// not connected, also when they are members no more, until they are barred.
func (d *Discovery) Remember(members map[peer.ID]struct{}) { d.book.setMembers(members) }

// Bar notes which peers may not be members any more.
func (d *Discovery) Bar(ids []peer.ID) { d.book.bar(ids) }

// Lookup adds the addresses that are remembered of a peer to those that the host knows, and asks
// the DHT where it is.
func (d *Discovery) Lookup(ctx context.Context, id peer.ID) (peer.AddrInfo, error) {
	known, _ := d.book.addrs(id)
	d.env.Host.Peerstore().AddAddrs(id, known, peerstore.TempAddrTTL)
	return d.env.DHT.FindPeer(ctx, id)
}

// Bootstrap reports how looking for the bootstrap addresses goes.
func (d *Discovery) Bootstrap() BootstrapState { return d.boot.state() }

// Nodes are the bootstrap nodes, in the order in which their addresses were given.
func (d *Discovery) Nodes() []peer.AddrInfo { return d.boot.nodes() }

// Hurry has the bootstrap nodes that are not connected dialled at once.
func (d *Discovery) Hurry() { d.boot.wake.Raise() }

// AddBootstrap has further addresses, ending in /p2p/ID, tried as those of Config.Bootstrap are.
func (d *Discovery) AddBootstrap(addrs []string) error {
	if err := d.boot.add(addrs); err != nil {
		return err
	}
	d.boot.wake.Raise()
	return nil
}

// Advertise announces in the DHT, until ctx or the task group ends, that this peer takes part in a
// run, under every name of its places and under those that follow. It returns at once.
//
// The first announcements come close together, and one follows each newcomer while the swarm is
// small: a record put while only the bootstrap node was known would die with it.
func (d *Discovery) Advertise(ctx context.Context, places *Places) {
	a := &advertiser{
		env: d.env, every: d.cfg.AdvertiseEvery, places: places, isNode: d.boot.isNode, came: peers.NewSignal(),
	}
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
	f, out := newFinder(d.env, d.cfg, d.book, d.boot.isNode, places)
	ended, end := context.WithCancel(context.Background())
	started := d.env.Tasks.Go(func() {
		defer close(out)
		defer end()
		ctx, cancel := d.env.Tasks.Join(ctx)
		defer cancel()
		f.serve(ctx)
	})
	if !started {
		close(out)
		end()
	}
	return out, func() bool { return f.hasLooked(ended) }
}
