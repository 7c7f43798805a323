package liveness

import (
	"context"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/dial"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tasks"
)

// Env is what liveness needs of the Network around it.
type Env struct {
	Host    host.Host
	Tasks   *tasks.Group
	Members *peers.Members
	Dialer  *dial.Dialer
	Log     *slog.Logger
}

// Ping is one round trip to a peer that is connected.
func Ping(ctx context.Context, h host.Host, id peer.ID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(network.WithNoDial(ctx, "ping"))
	defer cancel()
	select {
	case r := <-ping.Ping(ctx, h, id):
		return r.RTT, r.Error
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
