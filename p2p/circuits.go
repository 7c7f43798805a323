package p2p

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

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
