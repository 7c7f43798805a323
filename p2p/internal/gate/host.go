package gate

import (
	"context"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// gatedHost is a host whose streams go through the gate: for gossipsub, which opens and takes its
// own.
type gatedHost struct {
	host.Host
	gate func() *Gate
}

// Host is a host whose streams go through the gate that is set at the time; nil: there is none.
func Host(h host.Host, gate func() *Gate) host.Host { return gatedHost{h, gate} }

// SetStreamHandler implements host.Host.
func (h gatedHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, h.gated(f))
}

// SetStreamHandlerMatch implements host.Host.
func (h gatedHost) SetStreamHandlerMatch(id protocol.ID, match func(protocol.ID) bool, f network.StreamHandler) {
	h.Host.SetStreamHandlerMatch(id, match, h.gated(f))
}

func (h gatedHost) gated(f network.StreamHandler) network.StreamHandler {
	return func(s network.Stream) {
		if !h.gate().Admits(s.Conn().RemotePeer(), s.Protocol()) {
			_ = s.Reset()
			return
		}
		f(s)
	}
}

// NewStream implements host.Host.
func (h gatedHost) NewStream(ctx context.Context, to peer.ID, ids ...protocol.ID) (network.Stream, error) {
	if err := h.gate().Pass(ctx, to, ""); err != nil {
		return nil, err
	}
	s, err := h.Host.NewStream(ctx, to, ids...)
	if err != nil {
		return nil, err
	}
	if err := h.gate().StillPasses(s, to, ""); err != nil {
		return nil, err
	}
	return s, nil
}
