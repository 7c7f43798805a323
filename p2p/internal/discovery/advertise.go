package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	advertiseRetryMin = 250 * time.Millisecond
	advertiseRetryMax = 5 * time.Second
	// after the first success; doubles up to Config.AdvertiseEvery, or what is seldom
	advertiseFirst   = 2 * time.Second
	advertiseSettle  = time.Second // after a peer came: time for it to enter the routing table
	advertiseTimeout = 30 * time.Second
	smallSwarm       = 20 // Kademlia's bucket size: below it every peer should hold every record
)

type advertiser struct {
	env    Env
	every  time.Duration
	places *Places
	came   peers.Signal // a peer connected that has to be told
}

// onConnection has newcomers told while the swarm is small, and bootstrap nodes always: one that
// was started again knows nobody, and it is the first one that newcomers ask.
func (a *advertiser) onConnection(id peer.ID, connected bool) {
	if connected && (a.env.DHT.RoutingTable().Size() < smallSwarm || a.env.Dialer.IsNode(id)) {
		a.came.Raise()
	}
}

// loop is driven by hand because libp2p's own helper sleeps 2 minutes after a failure, and right
// after the start it fails.
func (a *advertiser) loop(ctx context.Context) {
	retry, next := advertiseRetryMin, advertiseFirst
	for ctx.Err() == nil {
		wait := next
		names, changed := a.places.now()
		if err := a.provide(ctx, names); err != nil {
			a.env.Log.Debug("announcing the run failed", "places", names, "err", err)
			wait = retry
			retry = min(2*retry, advertiseRetryMax)
		} else {
			retry = advertiseRetryMin
			next = min(2*next, max(a.every, seldom(a.env.DHT.RoutingTable().Size())))
		}
		if a.pause(ctx, wait, changed) {
			next = advertiseFirst
		}
	}
}

// pause waits, less long when a peer comes meanwhile, and not when there are other places, which it
// says.
func (a *advertiser) pause(ctx context.Context, wait time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	deadline := time.Now().Add(wait)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			return true
		case <-timer.C:
			return false
		case <-a.came:
			if left := time.Until(deadline); left > advertiseSettle {
				deadline = time.Now().Add(advertiseSettle)
				timer.Reset(advertiseSettle)
			}
		}
	}
}

var errNoNeighbours = errors.New("the routing table is empty")

func (a *advertiser) provide(ctx context.Context, names []string) error {
	if a.env.DHT.RoutingTable().Size() == 0 {
		return errNoNeighbours
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, a.provideAt(ctx, name))
	}
	return errors.Join(errs...)
}

func (a *advertiser) provideAt(ctx context.Context, name string) error {
	key, err := runKey(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, advertiseTimeout)
	defer cancel()
	return a.env.DHT.Provide(ctx, key, true)
}

// Places are the names under which the peers of a run announce themselves and look for each other,
// where these change: those of a private run come from its secrets.
type Places struct {
	mu struct {
		sync.Mutex
		names   []string
		changed chan struct{} // closed when they do
	}
}

// NewPlaces are places that can be Set again.
func NewPlaces(names ...string) *Places {
	p := &Places{}
	p.mu.names, p.mu.changed = names, make(chan struct{})
	return p
}

// Set replaces them. What is announced under names that are gone ends with its time in the DHT.
func (p *Places) Set(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(names, p.mu.names) {
		return
	}
	close(p.mu.changed)
	p.mu.names, p.mu.changed = slices.Clone(names), make(chan struct{})
}

// now are the names, and what is closed when there are others.
func (p *Places) now() (names []string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.names, p.mu.changed
}

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
