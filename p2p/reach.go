package p2p

import (
	"context"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/nat"
)

// RelayConfig says whether and for which peers a peer relays, and within which bounds.
type RelayConfig = nat.RelayConfig

// When a peer relays for others.
const (
	RelayOff    = nat.RelayOff
	RelayAuto   = nat.RelayAuto
	RelayAlways = nat.RelayAlways
)

// MemberRelay is the RelayConfig for members of a run.
func MemberRelay() RelayConfig { return nat.MemberRelay() }

// Reach is how this peer can be reached by others.
type Reach = nat.Reach

// Reach reports how this peer can be reached.
func (n *Network) Reach() Reach { return n.nat.Reach() }

// newNAT makes what makes this peer reachable, and what it relays for others.
func (n *Network) newNAT() (*nat.NAT, error) {
	return nat.New(nat.Env{
		Host: n.host, OwnHost: n.ownHost, Tasks: n.tasks, Events: n.known.Events, Members: n.known.Members,
		Greeted: n.known.Greeted,
		Log:     n.cfg.Logger, Nodes: n.discovery.Nodes, IsOfRun: n.isOfRun, MustEnd: mustEnd, Guesses: n.guesses,
	}, nat.Config{
		Announce: n.cfg.Announce, Relay: n.cfg.Relay, Upload: n.count.upload, Download: n.count.download,
		MaxUpload: n.cfg.MaxUpload, MaxDownload: n.cfg.MaxDownload, Carried: n.count.carried,
	})
}

// isOfRun says hello to a peer as one of a run. nil: it answered as one.
func (n *Network) isOfRun(ctx context.Context, id peer.ID, run string) error {
	theirs, err := n.Hello(ctx, slot.PeerID(id), Hello{Run: run})
	if err == nil && theirs.Run != run {
		err = fmt.Errorf("it is of run %q", theirs.Run)
	}
	return err
}

// guesses are where the TCP ports listened on may be reached from outside.
func (n *Network) guesses(seen []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	if n.ports == nil {
		return nil
	}
	return n.ports.Guesses(seen)
}
