package p2p

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/discovery"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// BootstrapState says how looking for the bootstrap addresses goes.
type BootstrapState = peers.BootstrapState

// ErrNoBootstrap is wrapped by the error that says no bootstrap address has answered.
var ErrNoBootstrap = peers.ErrNoBootstrap

// Places are the names under which the peers of a run announce themselves and look for each other.
type Places = discovery.Places

// NewPlaces are places that can be Set again.
func NewPlaces(names ...string) *Places { return discovery.NewPlaces(names...) }

// Bootstrap reports how looking for the bootstrap addresses goes.
func (n *Network) Bootstrap() BootstrapState { return n.env.Dialer.Bootstrap() }

// AddBootstrap has further addresses, ending in /p2p/ID, tried as those of Config.Bootstrap are.
func (n *Network) AddBootstrap(addrs []string) error { return n.env.Dialer.AddBootstrap(addrs) }

// Advertise announces in the DHT, until ctx or the Network ends, that this peer takes part in a
// run: under every name of its places and, at once, under those that follow. It returns at once.
func (n *Network) Advertise(ctx context.Context, places *Places) { n.discovery.Advertise(ctx, places) }

// Discover finds the peers that announce a run under some places, in the DHT, on the local network
// (Config.MDNS) and among those remembered, connects to them, and sends the ID of each one when it
// is connected, and again when it is after its last connection ended. It goes on until ctx or the
// Network ends, then the channel is closed. A peer that is found is a stranger: anybody may
// announce anything.
//
// looked says whether this peer has looked around: the DHT was searched since the last bootstrap
// node was connected, each peer that was found has had its first chance, and those that answered
// were sent. A peer that finds nobody is not alone before.
func (n *Network) Discover(ctx context.Context, places *Places) (found <-chan slot.PeerID, looked func() bool) {
	return n.discovery.Find(ctx, places)
}

// Contacts are up to limit addresses, each ending in /p2p/PEER, with which a newcomer that knows no
// peer could find the given peers: see peers.Env.Contacts.
func (n *Network) Contacts(ids []slot.PeerID, limit int, usable func(addr string) bool) []string {
	return n.env.Contacts(ids, limit, usable)
}
