package nat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// network is where the sites' public addresses are from.
var network = netip.MustParsePrefix("11.77.0.0/16")

// A World is an internet with sites and hosts, numbered from 0 as Config lists them. Its methods
// are for one goroutine at a time.
type World struct {
	cfg    Config
	lab    *lab.Lab
	sites  []site
	hosts  []host
	spaces []lab.Space // all that are not the lab's
}

type site struct {
	router lab.Space // hosts are connected to it: the home's, where there are two
	joined int       // number of hosts so far: addresses are not used again
}

type host struct {
	space lab.Space
	site  int
	addr  netip.Addr
}

// New makes a world, after it has removed what crashed processes with worlds of this Name left. It
// fails with lab.ErrNotRoot without the rights. ctx bounds only New; Close ends the world.
func New(ctx context.Context, cfg Config) (w *World, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("nat: %w", err)
	}
	cfg = cfg.withDefaults()
	for _, program := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("nat: %w: install iproute2 and nftables", err)
		}
	}
	l, err := lab.New(ctx, lab.Config{
		Nodes: len(cfg.Sites), Name: cfg.Name, Network: network, Link: cfg.Link,
		Seed: cfg.Seed,
	})
	if err != nil {
		return nil, err
	}
	w = &World{cfg: cfg, lab: l, sites: make([]site, len(cfg.Sites)), hosts: make([]host, len(cfg.Hosts))}
	if err := w.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("nat: %w", err), w.Close())
	}
	return w, nil
}

func (w *World) build(ctx context.Context) error {
	for i := range w.sites {
		if err := w.buildSite(ctx, i); err != nil {
			return fmt.Errorf("site %d: %w", i, err)
		}
	}
	for h, at := range w.cfg.Hosts {
		if err := w.buildHost(ctx, h, at); err != nil {
			return fmt.Errorf("host %d: %w", h, err)
		}
	}
	return nil
}

// newSpace makes a namespace beside the lab's. One letter more in its name tells them apart: Clean
// looks for the name alone.
func (w *World) newSpace(ctx context.Context) (lab.Space, error) {
	made, err := lab.NewSpaces(ctx, w.cfg.Name+"x", 1)
	if err != nil {
		return "", err
	}
	w.spaces = append(w.spaces, made...)
	return made[0], nil
}

// buildSite makes a site's routers.
func (w *World) buildSite(ctx context.Context, i int) error {
	s, kind := &w.sites[i], w.cfg.Sites[i].Kind
	s.router = w.lab.Space(i)
	switch kind {
	case Public:
		return nil
	case DoubleNAT:
		if err := makeRouter(ctx, s.router, PortRestricted, internetDevice); err != nil {
			return err
		}
		home, err := w.newSpace(ctx)
		if err != nil {
			return err
		}
		// The carrier's network has the shared addresses of RFC 6598.
		link := wire{
			inner: home, innerDevice: carrierDevice, inside: netip.MustParseAddr("100.64.0.2"),
			outer: s.router, outerDevice: "home0", outside: netip.MustParseAddr("100.64.0.1"),
		}
		if err := link.connect(ctx); err != nil {
			return err
		}
		s.router = home
		return makeRouter(ctx, home, PortRestricted, carrierDevice)
	default:
		return makeRouter(ctx, s.router, kind, internetDevice)
	}
}

func (w *World) buildHost(ctx context.Context, h, at int) error {
	if w.cfg.Sites[at].Kind == Public {
		w.hosts[h] = host{w.lab.Space(at), at, w.lab.Addr(at)}
		return nil
	}
	space, err := w.newSpace(ctx)
	if err != nil {
		return err
	}
	w.hosts[h] = host{space: space}
	return w.attach(ctx, h, at)
}

// attach connects a host without a site to a site with a router.
func (w *World) attach(ctx context.Context, h, at int) error {
	s, x := &w.sites[at], &w.hosts[h]
	if s.joined >= maxJoined {
		return fmt.Errorf("nat: %d hosts have been at site %d: it has no more addresses", s.joined, at)
	}
	lan := byte(w.cfg.Sites[at].LAN)
	// of a network of four addresses: its own, the router's, the host's and broadcast
	first := byte(4 * s.joined)
	link := wire{
		inner: x.space, innerDevice: "eth0", inside: netip.AddrFrom4([4]byte{192, 168, lan, first + 2}),
		outer: s.router, outerDevice: fmt.Sprintf("lan%d", s.joined),
		outside: netip.AddrFrom4([4]byte{192, 168, lan, first + 1}),
	}
	s.joined++
	if err := link.connect(ctx); err != nil {
		return err
	}
	x.site, x.addr = at, link.inside
	return nil
}

// maxJoined is how many networks of four addresses a LAN has.
const maxJoined = 64

// Move moves host h to another site, like a laptop that is carried from one network to another: it
// loses its inner and outer addresses and its connections, and after a moment has new addresses.
// Neither site may be public.
func (w *World) Move(ctx context.Context, h, to int) error {
	if h < 0 || h >= len(w.hosts) || to < 0 || to >= len(w.sites) {
		return fmt.Errorf("nat: no host %d or no site %d: there are %d and %d", h, to, len(w.hosts), len(w.sites))
	}
	x := &w.hosts[h]
	if w.cfg.Sites[x.site].Kind == Public || w.cfg.Sites[to].Kind == Public {
		return fmt.Errorf("nat: host %d cannot move from site %d to %d: a public one has its address for good", h,
			x.site, to)
	}
	if err := ip(ctx, x.space, "link delete eth0"); err != nil {
		return err
	}
	return w.attach(ctx, h, to)
}

// Kind is the kind of the site where host h is.
func (w *World) Kind(h int) Kind { return w.cfg.Sites[w.hosts[h].site].Kind }

// Addr is host h's own address: a private one unless its site is public.
func (w *World) Addr(h int) netip.Addr { return w.hosts[h].addr }

// PublicAddr is the address under which others see host h.
func (w *World) PublicAddr(h int) netip.Addr { return w.lab.Addr(w.hosts[h].site) }

// Place makes cmd, which has not been started, run on host h.
func (w *World) Place(h int, cmd *exec.Cmd) error {
	if h < 0 || h >= len(w.hosts) {
		return fmt.Errorf("nat: no host %d: they are numbered from 0 to %d", h, len(w.hosts)-1)
	}
	return w.hosts[h].space.Place(cmd)
}

// Close takes the world down. Processes in it must have ended: a process that still runs keeps its
// namespace, without a name, until it ends.
func (w *World) Close() error {
	spaces := w.spaces
	w.spaces = nil
	return errors.Join(lab.RemoveSpaces(spaces), w.lab.Close())
}
