package main

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// lookInside takes the view of a peer that runs here.
func lookInside(ctx context.Context, l *look, p *localPeer, bootstrap []string) {
	s := p.Status
	v := &doctor.View{Run: s.Run, Node: s.Peer.String(), Addrs: s.Addrs, Own: ownAddresses(), Reach: reachOf(s.Reach)}
	v.Bootstrap = doctor.Bootstrap{Given: bootstrap, Answered: s.Phase != p2pdiloco.PhaseSearching, Err: s.Detail}
	var probes []p2pdiloco.PeerProbe
	l.dir, l.view = p.Dir, v
	if err := p.Probe(ctx, &probes); err != nil && len(s.Members) > 1 {
		l.extra = append(l.extra, doctor.Found("probe", doctor.Warn,
			"the peer that runs here did not probe its members: "+err.Error(),
			"run doctor as the user who started the peer, with --data-dir if the peer was given one"))
	}
	for _, r := range probes {
		p := doctor.Peer{ID: r.Peer.String(), Member: true, Error: r.Error, Probe: doctor.Probe(r.Probe)}
		v.Peers = append(v.Peers, p)
	}
	v.Load = doctor.Load()
	v.Mapped = mapped(ctx, bootstrap)
	l.size(spec.FromFields(s.Spec), s.Parameters, len(s.Members), max(len(s.Members), 1))
	for _, m := range s.Members {
		c := m.Contribution
		if c != nil && c.StepTime*time.Duration(c.Steps) > v.Slot.Step*time.Duration(v.Slot.Steps) {
			v.Slot.Step, v.Slot.Steps = c.StepTime, uint64(c.Steps)
		}
	}
}

func reachOf(r p2p.Reach) *doctor.Reach {
	return &doctor.Reach{Public: r.Public, Tried: r.Tried, Failed: r.Failed, Relays: r.Relays}
}

// encoded is the size of an encoded model in bytes; 0 if it or the codec is not known.
func encoded(c codec.Codec, parameters uint64) uint64 {
	if c.Name == "" || parameters > 1<<40 {
		return 0
	}
	return uint64(c.EncodedSize(int(parameters)))
}

// ownAddresses are those of this machine's interfaces.
func ownAddresses() (own []netip.Addr) {
	all, _ := net.InterfaceAddrs() // without them everything looks like NAT, and a finding says so
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own
}

// mapped are the addresses at which peers see one UDP socket of this machine.
func mapped(ctx context.Context, addrs []string) []string {
	seen, _ := p2p.Mapped(ctx, addrs) // errors show up as those of bootstrap addresses
	return seen
}

const (
	outsideProbe = 2 << 20         // bytes each way
	outsidePeers = 8               // that are probed
	quiet        = 3 * time.Second // without another peer found, the search is over
)

// lookOutside joins the DHT with an identity of its own, finds peers of the run and probes them. It
// neither announces itself nor takes part.
func (f *doctorFlags) lookOutside(ctx context.Context, l *look) (err error) {
	cfg := p2p.LAN()
	cfg.Bootstrap, cfg.MDNS = f.bootstrap, f.run != ""
	n, err := p2p.New(ctx, cfg)
	if err != nil {
		return cli.UsageError(err)
	}
	defer n.Close() //nolint:errcheck // nothing of it is kept
	v := &doctor.View{Run: f.run, Own: ownAddresses(), Ticket: f.ticket != nil}
	l.view = v
	found := f.find(ctx, n)
	v.Addrs = n.Addrs()
	b := n.Bootstrap()
	v.Bootstrap = doctor.Bootstrap{Given: b.Given, Answered: b.Answered}
	if err := b.Err(); err != nil {
		v.Bootstrap.Err = strings.TrimPrefix(err.Error(), p2p.ErrNoBootstrap.Error()+": ")
	}
	if f.private() {
		v.Run = ""
		l.extra = append(l.extra, doctor.Found("members", doctor.Warn,
			"run "+f.run+" is private: its peers cannot be probed from outside",
			"join with the ticket, then run doctor again: it asks the peer that runs here"))
		return nil
	}
	spec := f.greet(ctx, n, found)
	others := slices.DeleteFunc(n.Peers(), func(id p2pdiloco.PeerID) bool { return slices.Contains(found, id) })
	for i, id := range slices.Concat(found, others) {
		if i == outsidePeers || ctx.Err() != nil {
			break
		}
		probe, err := n.Probe(ctx, id, outsideProbe)
		p := doctor.Peer{ID: id.String(), Member: slices.Contains(found, id), Probe: doctor.Probe(probe)}
		if err != nil {
			p.Error = err.Error()
		}
		v.Peers = append(v.Peers, p)
	}
	v.Load, v.Mapped, v.Reach = doctor.Load(), mapped(ctx, f.bootstrap), reachOf(n.Reach())
	if spec != nil {
		l.size(*spec, spec.Layout.Elements(), int(spec.StartPeers), len(found)+1)
	}
	return nil
}

// private says whether the run is private: its peers do not announce its name.
func (f *doctorFlags) private() bool { return f.ticket != nil && f.ticket.Token != nil }

// find waits for the run's peers, until no more come.
func (f *doctorFlags) find(ctx context.Context, n *p2p.Network) (found []p2pdiloco.PeerID) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var news <-chan p2pdiloco.PeerID
	byName := f.run != "" && !f.private()
	if byName {
		news, _ = n.Discover(ctx, p2p.NewPlaces(f.run))
	}
	again := time.NewTicker(quiet)
	defer again.Stop()
	for {
		select {
		case p, open := <-news:
			if !open {
				return found
			}
			if !slices.Contains(found, p) {
				found = append(found, p)
			}
			again.Reset(quiet)
		case <-again.C:
			b := n.Bootstrap()
			if len(found) > 0 || !byName && (b.Answered || len(b.Given) == 0) {
				return found
			}
		case <-ctx.Done():
			return found
		}
	}
}

// greet asks the run's peers for its spec, until one answers with it.
func (f *doctorFlags) greet(ctx context.Context, n *p2p.Network, found []p2pdiloco.PeerID) *p2pdiloco.Spec {
	for _, p := range found {
		h, err := n.Hello(ctx, p, p2p.Hello{Run: f.run})
		if err != nil || len(h.Spec) == 0 {
			continue
		}
		if s, err := spec.Parse(h.Spec); err == nil && s.Name == f.run {
			return &s
		}
	}
	return nil
}
