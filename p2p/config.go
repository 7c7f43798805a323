package p2p

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/discovery"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/nat"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Config says how a Network is made. The zero value works: an identity that lasts as long as the
// process, any free port on all interfaces, nobody to ask.
type Config struct {
	// IdentityFile keeps the Ed25519 key. It is made when missing and never replaced. Empty: a new
	// identity each time.
	IdentityFile string
	// Listen are the multiaddrs to listen on, all of which must be had. Empty: any free TCP and UDP
	// (QUIC) port on all interfaces, IPv4 and, where there is one, IPv6.
	Listen []string
	// PortsFile remembers the ports that were found free, where Listen is empty or names port 0, so
	// that a restart listens on the same. Empty: nothing is remembered.
	PortsFile string
	// Bootstrap are multiaddrs ending in /p2p/ID. They are tried until one answers.
	Bootstrap []string
	// PeersFile remembers the addresses of the run's peers over restarts. Empty: nothing is
	// remembered.
	PeersFile string
	// MDNS looks for peers on the local network.
	MDNS bool
	// AdvertiseEvery is the longest time between two announcements of a run in the DHT. They start
	// close together and spread out. Default 5 minutes; it must stay well under the 30 minutes that
	// an announcement lives.
	AdvertiseEvery time.Duration
	// FindEvery is the longest time between two searches of the DHT. Default 30 s.
	FindEvery time.Duration
	// Pulse is the time between two signs of life to each member (Protect); one that is silent for
	// three times that is disconnected. Default 4 s.
	Pulse time.Duration
	// MaxUpload bounds the bytes a second sent on streams for much data (all-reduce, states); what
	// else is sent is counted against it and never held up. 0: no bound.
	MaxUpload int64
	// MaxDownload bounds the bytes a second read from streams for much data, so that their senders
	// are held back; what else comes is counted against it and never held up. 0: no bound.
	MaxDownload int64
	// Announce are multiaddrs that are announced besides those seen: where a router or firewall
	// lets them through to this peer, which then counts as reachable and looks for no relay, if one
	// of them is an address of IPv4.
	Announce []string
	// PortMap asks the router (UPnP, NAT-PMP) to forward the ports listened on.
	PortMap bool
	// Relay says for which peers this one relays. Zero: for none.
	Relay RelayConfig
	// Logger is silent when nil.
	Logger *slog.Logger
}

// MinUpload and MinDownload are the least Config.MaxUpload and MaxDownload, in bytes a second: with
// less a peer looks dead to the others.
const (
	MinUpload   = limits.MinRate
	MinDownload = limits.MinRate
)

// Defaults of Config, and bounds on it.
const (
	defaultAdvertiseEvery = 5 * time.Minute
	defaultFindEvery      = 30 * time.Second
	defaultPulse          = 4 * time.Second
	maxAnnounce           = 8
)

// defaultListen is tried address by address; one that can be had is enough.
var defaultListen = []string{
	"/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1",
	"/ip6/::/tcp/0", "/ip6/::/udp/0/quic-v1",
}

// LAN is a Config for machines on one network, where peers come and go by the second: it searches
// and announces often.
func LAN() Config {
	return Config{AdvertiseEvery: 30 * time.Second, FindEvery: 2 * time.Second, Pulse: time.Second}
}

// WAN is the Config with the defaults for peers across the internet.
func WAN() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	c.AdvertiseEvery = cmp.Or(c.AdvertiseEvery, defaultAdvertiseEvery)
	c.FindEvery = cmp.Or(c.FindEvery, defaultFindEvery)
	c.Pulse = cmp.Or(c.Pulse, defaultPulse)
	c.Relay = c.Relay.WithDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate says all that is wrong with c at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, s := range c.Listen {
		_, err := multiaddr.NewMultiaddr(s)
		bad(err != nil, "listen address %q: %w; give a multiaddr like /ip4/0.0.0.0/tcp/4001", s, err)
	}
	for _, s := range c.Bootstrap {
		_, err := peer.AddrInfoFromString(s)
		bad(err != nil, "bootstrap address %q: %w; give one as the bootstrap node prints it, like "+
			"/ip4/192.0.2.1/tcp/4001/p2p/12D3Koo…", s, err)
	}
	for _, s := range c.Announce {
		_, err := multiaddr.NewMultiaddr(s)
		bad(err != nil, "announced address %q: %w; give a multiaddr like /ip4/192.0.2.1/tcp/4001", s, err)
	}
	bad(len(c.Announce) > maxAnnounce, "%d announced addresses: at most %d are allowed", len(c.Announce), maxAnnounce)
	bad(len(c.Bootstrap) > peers.MaxBootstrap, "%d bootstrap addresses: at most %d are allowed", len(c.Bootstrap),
		peers.MaxBootstrap)
	bad(c.AdvertiseEvery < 0 || c.AdvertiseEvery > discovery.AnnouncementLife/2,
		"announcing every %s: more than 0 and at most %s is allowed", c.AdvertiseEvery, discovery.AnnouncementLife/2)
	bad(c.FindEvery < 0, "searching every %s: more than 0 is allowed", c.FindEvery)
	bad(c.Pulse < 0, "a pulse every %s: more than 0 is allowed", c.Pulse)
	bad(c.MaxUpload < 0 || c.MaxUpload > 0 && c.MaxUpload < MinUpload,
		"at most %d bytes a second sent: give at least %d, or 0 for no bound", c.MaxUpload, MinUpload)
	bad(c.MaxDownload < 0 || c.MaxDownload > 0 && c.MaxDownload < MinDownload,
		"at most %d bytes a second received: give at least %d, or 0 for no bound", c.MaxDownload, MinDownload)
	return errors.Join(append(errs, c.Relay.WithDefaults().Validate())...)
}

// Option changes how New works in ways that need libp2p types.
type Option func(*Network)

// WithHost uses a host that exists already. It keeps its identity, addresses and limits, is not
// closed by Close, and its private key must be in its peerstore. Config's IdentityFile and Listen
// are not used. Traffic counts only what goes through streams of the Network, since the host's own
// counter is out of reach.
func WithHost(h host.Host) Option { return func(n *Network) { n.env.Host = h } }

// RelayConfig says whether and for which peers a peer relays, and within which bounds.
type RelayConfig = nat.RelayConfig

// MemberRelay is the RelayConfig for members of a run.
func MemberRelay() RelayConfig { return nat.MemberRelay() }
