package p2p

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Network is a libp2p host with what a run needs around it. Its methods may be called from any goroutine.
type Network struct {
	cfg       Config
	log       *slog.Logger
	host      host.Host
	ownHost   bool
	key       crypto.PrivKey
	dht       *dht.IpfsDHT
	count     traffic
	upload    bucket
	download  bucket
	bulk      *bulk // nil without TCP, TLS or a host of its own
	events    *events
	boot      *bootstrapper
	memory    *memory
	arrivals  arrivals
	pulses    *pulses
	moves     *moves
	probes    *prober
	ranks     dialRanks
	greeted   greeted
	answers   *budget // of those who are greeted
	punches   punches
	holes     holes
	rtts      rtts
	relaying  *relaying
	reserved  *reservations
	reachable *reachability
	arrived   network.Notifiee     // of arrivals
	gate      atomic.Pointer[gate] // nil: anybody may come

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything that Close waits for

	mu struct {
		sync.Mutex
		closed    bool
		streams   map[*stream]struct{}
		inbound   map[inboundKey]int // streams being handled
		handlers  map[protocol.ID]handlerFunc
		protected map[peer.ID]struct{}
	}
}

// New makes a Network, listens, and begins to look for the bootstrap addresses. It does not wait for one to answer. ctx bounds
// only New itself. The errors for a port in use, a bad identity file and every fault of cfg say what to do.
func New(ctx context.Context, cfg Config, opts ...Option) (*Network, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	n := &Network{cfg: cfg, log: cfg.Logger, answers: newBudget(helloMemory)}
	n.upload.rate, n.count.upload = float64(cfg.MaxUpload), &n.upload
	n.download.rate, n.count.download = float64(cfg.MaxDownload), &n.download
	n.count.relays = newRelayWatch(n)
	n.mu.streams = make(map[*stream]struct{})
	n.mu.inbound = make(map[inboundKey]int)
	n.mu.handlers = make(map[protocol.ID]handlerFunc)
	n.mu.protected = make(map[peer.ID]struct{})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.open(o); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// open makes the parts, bottom up. What it made is for Close to undo, also after an error.
func (n *Network) open(o options) (err error) {
	if err := n.openHost(o); err != nil {
		return err
	}
	if n.events, err = newEvents(n.host); err != nil {
		return err
	}
	n.goDo(func() { n.events.run(n.ctx) })
	n.moves = newMoves(n)
	n.arrived = n.arrivals.watch()
	n.host.Network().Notify(n.arrived)
	if n.dht, err = newDHT(n.host); err != nil {
		return fmt.Errorf("starting the DHT: %w", err)
	}
	n.pulses = startPulses(n)
	n.memory = newMemory(n)
	n.goDo(n.memory.run)
	n.probes = serveProbes(n)
	n.boot = newBootstrapper(n)
	if err := n.openReach(); err != nil {
		return err
	}
	n.goDo(n.boot.run)
	if n.ownHost {
		n.goDo(n.moves.run)
	}
	return nil
}

// openReach starts what makes this peer reachable, and what it relays for others.
func (n *Network) openReach() (err error) {
	n.relaying = newRelaying(n)
	n.count.carried = &n.relaying.carried
	if n.reserved, err = newReservations(n); err != nil {
		return err
	}
	if n.reachable, err = newReachability(n); err != nil {
		return err
	}
	n.goDo(func() { n.reachable.run(n.ctx) })
	n.goDo(n.reserved.run)
	n.goDo(n.count.relays.run)
	n.goDo(n.upgrades)
	return n.relaying.set(n.reachable.public())
}

func (n *Network) openHost(o options) (err error) {
	if o.host != nil {
		n.host = o.host
		if n.key = n.host.Peerstore().PrivKey(n.host.ID()); n.key == nil {
			return errors.New("the given host's private key is not in its peerstore: add it with Peerstore().AddPrivKey")
		}
		return nil
	}
	if n.key, err = loadIdentity(n.cfg.IdentityFile); err != nil {
		return err
	}
	if slices.Contains(n.cfg.Transports, TransportTCP) && n.cfg.Security != SecurityNoise {
		if n.bulk, err = newBulk(n); err != nil {
			return err
		}
	}
	var seen basichost.ObservedAddrsManager
	if n.host, err = newHost(n.key, n, &seen); err != nil {
		return err
	}
	n.ownHost = true
	if err := n.punchHoles(seen); err != nil {
		return err
	}
	if n.bulk != nil {
		n.bulk.news = n.bulk.watch()
		n.host.Network().Notify(n.bulk.news)
	}
	return listen(n.host, n.cfg)
}

// Close resets all streams, waits for handlers and everything else that the Network started, and closes the host unless it was
// given. Closing twice does nothing.
func (n *Network) Close() error {
	n.mu.Lock()
	if n.mu.closed {
		n.mu.Unlock()
		return nil
	}
	n.mu.closed = true
	streams := make([]*stream, 0, len(n.mu.streams))
	for s := range n.mu.streams {
		streams = append(streams, s)
	}
	protocols := slices.Collect(maps.Keys(n.mu.handlers))
	n.mu.Unlock()

	n.cancel()
	if n.relaying != nil {
		_ = n.relaying.close() // the host's own end follows
	}
	for _, p := range protocols {
		n.host.RemoveStreamHandler(p)
	}
	for _, s := range streams {
		_ = s.Reset()
	}
	if n.bulk != nil {
		n.bulk.close()
	}
	n.wg.Wait()
	return n.closeParts()
}

// closeParts undoes open, top down.
func (n *Network) closeParts() error {
	var errs []error
	if n.arrived != nil {
		n.host.Network().StopNotify(n.arrived)
	}
	if n.bulk != nil && n.bulk.news != nil {
		n.host.Network().StopNotify(n.bulk.news)
	}
	if n.moves != nil {
		n.moves.close()
	}
	if n.pulses != nil {
		n.host.Network().StopNotify(n.pulses.news)
	}
	if n.dht != nil {
		errs = append(errs, n.dht.Close())
	}
	if n.events != nil {
		errs = append(errs, n.events.close())
	}
	n.holes.close()
	if n.ownHost {
		errs = append(errs, n.host.Close())
	}
	return errors.Join(errs...)
}

// goDo runs f in a goroutine that Close waits for, or says no when Close has begun. f ends when n.ctx does.
func (n *Network) goDo(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed {
		return false
	}
	n.wg.Go(f)
	return true
}

// joined is a context that ends with ctx or with the Network.
func (n *Network) joined(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// closedError turns err into one that unwraps to net.ErrClosed if the Network is closed.
func (n *Network) closedError(err error) error {
	if n.ctx.Err() != nil {
		return fmt.Errorf("p2p network: %w", net.ErrClosed)
	}
	return err
}

// ID is this peer's ID.
func (n *Network) ID() slot.PeerID { return slot.PeerID(n.host.ID()) }

// Host is the libp2p host, for package gossip: its streams go through the gate, if there is one.
func (n *Network) Host() host.Host {
	if n.gate.Load() == nil {
		return n.host
	}
	return gatedHost{n.host, n}
}

// Addrs are the full addresses, with /p2p/ID, under which this peer can be reached.
func (n *Network) Addrs() []string {
	addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(n.host))
	if err != nil {
		return nil // a host's own ID always makes an address
	}
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}

// Peers are the IDs of the peers connected now, whichever run they are in, sorted. Those that are so through a limited relay only, which is
// none of ours, are not among them.
func (n *Network) Peers() []slot.PeerID {
	peers := slices.DeleteFunc(n.host.Network().Peers(), func(p peer.ID) bool {
		return n.host.Network().Connectedness(p) != network.Connected
	})
	out := make([]slot.PeerID, len(peers))
	for i, p := range peers {
		out[i] = slot.PeerID(p)
	}
	slices.Sort(out)
	return out
}

// Traffic is the number of bytes sent and received so far, by what for.
func (n *Network) Traffic() Traffic { return n.count.snapshot() }

// MaxUpload is Config.MaxUpload.
func (n *Network) MaxUpload() int64 { return n.cfg.MaxUpload }

// MaxDownload is Config.MaxDownload.
func (n *Network) MaxDownload() int64 { return n.cfg.MaxDownload }

// Sign signs data with this peer's key. Verify checks it.
func (n *Network) Sign(data []byte) ([]byte, error) {
	if err := n.closedError(nil); err != nil {
		return nil, err
	}
	return n.key.Sign(data)
}

const protectTag = "p2pdiloco/member"

// Protect sets the peers whose connections are never trimmed and whose addresses are remembered: the members of the run.
func (n *Network) Protect(peers []slot.PeerID) {
	want := make(map[peer.ID]struct{}, len(peers))
	for _, p := range peers {
		if id := peer.ID(p); id != n.host.ID() {
			want[id] = struct{}{}
		}
	}
	for _, id := range n.protect(want) {
		n.pulses.send(id)
	}
}

// protect does so, and lists those that were not among them before.
func (n *Network) protect(want map[peer.ID]struct{}) (added []peer.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed {
		return nil
	}
	conns := n.host.ConnManager()
	for id := range n.mu.protected {
		if _, ok := want[id]; !ok {
			conns.Unprotect(id, protectTag)
		}
	}
	for id := range want {
		conns.Protect(id, protectTag)
		if _, old := n.mu.protected[id]; !old {
			added = append(added, id)
		}
	}
	n.mu.protected = want
	n.memory.setMembers(want)
	return added
}
