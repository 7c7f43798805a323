package p2p

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/discovery"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/nat"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Network is a libp2p host with what a run needs around it. Its methods may be called from any
// goroutine.
type Network struct {
	cfg       Config
	env       peers.Env
	ownHost   bool
	key       crypto.PrivKey
	count     traffic
	ports     *bulk.Ports // nil without, as bulk
	bulk      *bulk.Conns // nil without a host of its own
	discovery *discovery.Discovery
	signs     *peers.Signs
	pulses    *peers.Pulses
	probes    *prober
	ranks     *peers.Ranks
	answers   *limits.Budget          // of the peers that are greeted
	rtts      *lru.Cache[string, rtt] // by connection
	nat       *nat.NAT
	hints     *nat.Hints              // of the host, if it is this Network's own
	closure   atomic.Pointer[closure] // nil: anybody may come
	streams   *streams
	endErr    error // of what is closed at the end
}

// closure is a gate, with the protocols that were handled when it was set.
type closure struct {
	*peers.Gate
	before map[protocol.ID]handlerFunc
}

// New makes a Network, listens, and begins to look for the bootstrap addresses. It does not wait
// for one to answer. ctx bounds only New itself. The errors for a port in use, a bad identity file
// and every fault of cfg say what to do.
func New(ctx context.Context, cfg Config, opts ...Option) (*Network, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := &Network{
		cfg: cfg, env: peers.Env{Tasks: peers.NewGroup(context.Background())}, answers: limits.NewBudget(helloMemory),
		ranks: peers.NewRanks(), streams: newStreams(),
		hints: &nat.Hints{}, signs: peers.NewSigns(),
	}
	n.rtts, _ = lru.New[string, rtt](maxRTTs) // fails for a size of 0
	n.count.upload, n.count.download = limits.NewBucket(cfg.MaxUpload), limits.NewBucket(cfg.MaxDownload)
	n.count.relays = func(relay peer.ID) { n.signs.Saw(relay, false) }
	for _, opt := range opts {
		opt(n)
	}
	n.ownHost = n.env.Host == nil
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// open makes the parts, bottom up. What it made is for Close to undo, also after an error.
func (n *Network) open() (err error) {
	inlet := make(bulk.Inlet) // of a host of its own
	if err := n.openHost(inlet); err != nil {
		return err
	}
	kad, err := discovery.NewDHT(n.env.Host)
	if err != nil {
		return fmt.Errorf("starting the DHT: %w", err)
	}
	n.atEnd(kad.Close)
	find := func(ctx context.Context, id peer.ID) (peer.AddrInfo, error) { return n.discovery.Lookup(ctx, id) }
	dial := peers.DialConfig{Bootstrap: n.cfg.Bootstrap, PeersFile: n.cfg.PeersFile, Every: n.cfg.FindEvery}
	if len(n.cfg.Announce) == 0 { // else no node needs to report how a router translates ports
		dial.Ranks = n.ranks
	}
	n.env = peers.NewEnv(n.env.Host, n.env.Tasks, find, dial, n.cfg.Logger)
	if err := openCircuits(n.env, n.key); err != nil {
		return fmt.Errorf("using relays: %w", err)
	}
	if err := n.listen(inlet); err != nil {
		return err
	}
	n.discovery = discovery.New(discovery.Env{Env: n.env, DHT: kad}, discovery.Config{
		MDNS: n.cfg.MDNS, AdvertiseEvery: n.cfg.AdvertiseEvery, FindEvery: n.cfg.FindEvery,
	})
	changes := peers.NewAddressChanges(n.env, n.bulk.EndWhere)
	n.probes = serveProbes(n)
	if err := n.openReach(); err != nil {
		return err
	}
	post := n.NewMessenger(ProtocolPulse, 0, func(from slot.PeerID, _ []byte) { n.signs.Pulsed(peer.ID(from)) }, nil)
	n.pulses = peers.NewPulses(n.env, n.cfg.Pulse, n.signs, post.Send, n.nat.RelaysInUse)
	n.env.Dialer.Start()
	if n.ownHost {
		n.env.Tasks.Go(changes.Run)
	}
	return nil
}

// listen has the Network's own host take connections.
func (n *Network) listen(inlet bulk.Inlet) (err error) {
	if !n.ownHost {
		return nil
	}
	if n.bulk, err = n.newBulk(inlet); err != nil {
		return err
	}
	return listen(n.env.Host, n.cfg)
}

// openReach starts what makes this peer reachable, and what it relays for others.
func (n *Network) openReach() (err error) {
	if n.nat, err = n.newNAT(); err != nil {
		return err
	}
	if n.ownHost {
		if err := n.nat.PunchHoles(n.cfg.Announce); err != nil {
			return err
		}
	}
	return n.nat.Start()
}

func (n *Network) openHost(inlet bulk.Inlet) (err error) {
	if !n.ownHost {
		if n.key = n.env.Host.Peerstore().PrivKey(n.env.Host.ID()); n.key == nil {
			return errors.New("the given host's private key is not in its peerstore: add it with " +
				"Peerstore().AddPrivKey")
		}
		return nil
	}
	if n.key, err = loadIdentity(n.cfg.IdentityFile); err != nil {
		return err
	}
	n.ports = bulk.NewPorts(func(a multiaddr.Multiaddr) bool { return n.ranks.PrefersQUIC(a) })
	if n.env.Host, err = newHost(n, inlet); err != nil {
		return err
	}
	n.atEnd(n.env.Host.Close)
	return nil
}

// Close resets all streams, waits for handlers and everything else that the Network started, and
// closes the host unless it was given. Closing twice does nothing.
func (n *Network) Close() error {
	if !n.env.Tasks.Stop() {
		return nil
	}
	for id := range n.streams.handled() {
		n.env.Host.RemoveStreamHandler(id)
	}
	n.env.Tasks.Wait()
	if n.nat != nil {
		n.nat.Close() // it waits for streams, which the host's end resets
	}
	return n.endErr
}

// atEnd has Close call f before what was opened earlier is closed.
func (n *Network) atEnd(f func() error) {
	n.env.Tasks.After(func() { n.endErr = errors.Join(n.endErr, f()) })
}

// ID is this peer's ID.
func (n *Network) ID() slot.PeerID { return slot.PeerID(n.env.Host.ID()) }

// Addrs are the full addresses, with /p2p/ID, under which this peer can be reached.
func (n *Network) Addrs() []string {
	addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(n.env.Host))
	if err != nil {
		return nil // a host's own ID always makes an address
	}
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}

// Peers are the IDs of the peers connected now, whichever run they are in, sorted. Those that are
// so through a limited relay only, which is none of ours, are not among them.
func (n *Network) Peers() []slot.PeerID {
	return slices.Sorted(maps.Keys(n.Relayed()))
}

// Traffic is the number of bytes sent and received so far, by what for.
func (n *Network) Traffic() Traffic { return n.count.snapshot() }

// MaxUpload is Config.MaxUpload.
func (n *Network) MaxUpload() int64 { return n.cfg.MaxUpload }

// MaxDownload is Config.MaxDownload.
func (n *Network) MaxDownload() int64 { return n.cfg.MaxDownload }

// Sign signs data with this peer's key. Verify checks it.
func (n *Network) Sign(data []byte) ([]byte, error) {
	if err := n.env.Tasks.Err(nil); err != nil {
		return nil, err
	}
	return n.key.Sign(data)
}

// Protect sets the peers whose connections are never trimmed and whose addresses are remembered:
// the members of the run. While they are not connected they are dialled now and then, also when
// they are members no more (Config.PeersFile).
func (n *Network) Protect(peers []slot.PeerID) {
	want := make(map[peer.ID]struct{}, len(peers))
	for _, p := range peers {
		if id := peer.ID(p); id != n.env.Host.ID() {
			want[id] = struct{}{}
		}
	}
	if n.env.Tasks.Context().Err() != nil {
		return
	}
	for _, id := range n.env.SetMembers(want) {
		n.pulses.Send(id)
	}
}

// Bar has this peer dial none of these by itself, unless they are members again: they are put out
// of the run.
func (n *Network) Bar(peers []slot.PeerID) {
	n.env.Book.Bar(peers)
}
