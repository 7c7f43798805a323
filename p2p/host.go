package p2p

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/nat"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	// Connections that are kept when there are too many; members are Protect()ed and never count
	// among the dispensable.
	connLowWater, connHighWater = 512, 1024
	// yamux breaks a connection when one message takes longer than this to write: 256 KiB in 60 s
	// is 35 kbit/s.
	muxWriteTimeout = time.Minute
	muxMaxMessage   = 256 << 10
)

// newHost makes a libp2p host that does not listen yet.
func newHost(n *Network, inlet bulk.Inlet) (host.Host, error) {
	cfg := n.cfg
	limits, err := limits.NewResourceManager(bulk.MaxConns)
	if err != nil {
		return nil, err
	}
	conns, err := connmgr.NewConnManager(connLowWater, connHighWater)
	if err != nil {
		return nil, errors.Join(err, limits.Close())
	}
	failed := func(err error) (host.Host, error) { return nil, errors.Join(err, conns.Close(), limits.Close()) }
	ways, err := ways(n.ports, inlet)
	if err != nil {
		return failed(err)
	}
	known, err := n.hints.Peerstore()
	if err != nil {
		return failed(err)
	}
	h, err := libp2p.New(
		libp2p.Identity(n.key),
		libp2p.Peerstore(known),
		libp2p.ChainOptions(ways...),
		libp2p.UserAgent(userAgent),
		libp2p.NoListenAddrs, // listen reports each address by itself
		libp2p.Muxer(yamux.ID, muxer()),
		libp2p.SwarmOpts(swarm.WithDialRanker(n.ranks.Rank)),
		libp2p.ResourceManager(limits),
		libp2p.ConnectionManager(conns),
		libp2p.BandwidthReporter(&n.count),
		libp2p.ChainOptions(reaching(cfg, n.hints)...),
		// libp2p stops dialling over UDP, or IPv6, where of a hundred dials hardly any got through:
		// so a hundred announcements of peers that are not there would do.
		libp2p.UDPBlackHoleSuccessCounter(nil),
		libp2p.IPv6BlackHoleSuccessCounter(nil),
		libp2p.DisableMetrics(),
	)
	if err != nil {
		return failed(fmt.Errorf("making a libp2p host: %w", err))
	}
	return h, nil
}

// ways are the transports and what secures them, those preferred first.
func ways(ports *bulk.Ports, inlet bulk.Inlet) ([]libp2p.Option, error) {
	certified, err := bulk.Certified()
	return []libp2p.Option{
		libp2p.Transport(bulk.NewTransport(ports, inlet)),
		libp2p.Transport(quic.NewTransport, quic.WithTLSIdentityOption(certified)),
		libp2p.Security(libp2ptls.ID, bulk.NewLargeTLS),
	}, err
}

// reaching is what makes a peer behind a router or firewall reachable: addresses that are announced
// besides those seen, ports that the router is asked to forward, others that try this peer's
// addresses, and relays. Holes are punched by holes.
func reaching(cfg Config, hints *nat.Hints) []libp2p.Option {
	announcing := peers.Announcing(cfg.Announce)
	opts := []libp2p.Option{
		libp2p.AddrsFactory(func(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
			return hints.Relayed(announcing(addrs))
		}),
		libp2p.DisableRelay(), // openCircuits has it used
		libp2p.EnableAutoNATv2(),
	}
	if cfg.PortMap {
		opts = append(opts, libp2p.NATPortMap())
	}
	return opts
}

func muxer() *yamux.Transport {
	t := *yamux.DefaultTransport
	t.MaxMessageSize = muxMaxMessage
	t.ConnectionWriteTimeout = muxWriteTimeout
	return &t
}

// listen starts to listen on all that is given, or on what can be had of the defaults.
func listen(h host.Host, cfg Config) error {
	if len(cfg.Listen) > 0 {
		return errors.Join(listenKept(h, cfg, cfg.Listen)...)
	}
	return listenAny(h, cfg, defaultListen)
}

// listenAny fails only if not one of the addresses can be had.
func listenAny(h host.Host, cfg Config, addrs []string) error {
	if errs := listenKept(h, cfg, addrs); len(errs) == len(addrs) {
		return errors.Join(errs...)
	}
	return nil
}

// listenOn tries address by address: given many, libp2p is content with one.
func listenOn(h host.Host, addrs []string) (errs []error) {
	for _, s := range addrs {
		a, err := multiaddr.NewMultiaddr(s)
		if err == nil {
			err = h.Network().Listen(a)
		}
		if err != nil {
			errs = append(errs, listenError(s, err))
		}
	}
	return errs
}

func listenError(addr string, err error) error {
	// The swarm flattens the errors of its listeners into text, so errors.Is alone would miss this.
	if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
		return fmt.Errorf("%s is in use by another program: stop it, or listen on another port (0 takes any free "+
			"one): %w", addr, syscall.EADDRINUSE)
	}
	return fmt.Errorf("cannot listen on %s: %w: give a multiaddr with a port, like /ip4/0.0.0.0/tcp/4001 or "+
		"/ip4/0.0.0.0/udp/4001/quic-v1", addr, err)
}

// circuitsHost is the host as libp2p's client of relays sees it. A relay is dialled directly: two
// members that are each other's relays would wait for each other. One that is a member is not
// dialled at all for a way through it: that is done anyway, and nobody waits for one that is gone.
type circuitsHost struct {
	host.Host
	members *peers.Members
}

// NewStream implements host.Host.
func (h circuitsHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	ctx = network.WithForceDirectDial(ctx, "a relay")
	if h.members.Has(p) {
		ctx = network.WithNoDial(ctx, "a member")
	}
	return h.Host.NewStream(ctx, p, ids...)
}

// openCircuits has the host open and take connections through relays, unless its maker has seen to
// that.
func openCircuits(env peers.Env, key crypto.PrivKey) error {
	on, ok := env.Host.Network().(*swarm.Swarm)
	anyRelay := multiaddr.StringCast("/p2p-circuit")
	if !ok || on.TransportForDialing(anyRelay) != nil {
		return nil
	}
	mux := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: muxer()}}
	tls, err := bulk.NewLargeTLS(libp2ptls.ID, key, mux)
	if err != nil {
		return err
	}
	up, err := upgrader.New([]sec.SecureTransport{tls}, mux, nil, on.ResourceManager(), nil)
	if err != nil {
		return err
	}
	c, err := client.New(circuitsHost{env.Host, env.Members}, up)
	if err != nil {
		return err
	}
	c.Start()
	return errors.Join(on.AddTransport(c), on.Listen(anyRelay))
}
