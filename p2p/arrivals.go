package p2p

import (
	"context"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// arrivals ends dials to peers that have connected by themselves meanwhile. libp2p does not: a peer that died is dialled at its old
// addresses, over QUIC for seconds; started again it is here long before, and whatever is for it would wait for that dial.
type arrivals struct {
	mu struct {
		sync.Mutex
		dials map[peer.ID]map[*context.CancelFunc]struct{}
	}
}

// dialling is ctx until the peer connects. The function returned must be called when the dial is over.
func (a *arrivals) dialling(ctx context.Context, id peer.ID) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.dials == nil {
		a.mu.dials = make(map[peer.ID]map[*context.CancelFunc]struct{})
	}
	if a.mu.dials[id] == nil {
		a.mu.dials[id] = make(map[*context.CancelFunc]struct{})
	}
	a.mu.dials[id][&cancel] = struct{}{}
	return ctx, func() {
		cancel()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.mu.dials[id], &cancel)
		if len(a.mu.dials[id]) == 0 {
			delete(a.mu.dials, id)
		}
	}
}

func (a *arrivals) watch() network.Notifiee {
	return &network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		if c.Stat().Limited {
			return
		}
		a.again(c.RemotePeer()) // where it is connected a dial is not begun anew
	}}
}

// again begins the dials to a peer anew.
func (a *arrivals) again(id peer.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for cancel := range a.mu.dials[id] {
		(*cancel)()
	}
}

// dial has a connection to the peer when it returns nil, whoever made it. One through a limited relay will do: small things pass there, and it
// may be the first step to a better one.
func (n *Network) dial(ctx context.Context, to peer.AddrInfo) error {
	for {
		again, err := n.dialOnce(ctx, to)
		switch {
		case err != nil && n.host.Network().Connectedness(to.ID) != network.NotConnected:
			return nil
		case !again || ctx.Err() != nil:
			return err
		}
		n.forgetFailures(to.ID)
	}
}

// dialOnce dials, and says whether that ended because it is to begin anew.
func (n *Network) dialOnce(ctx context.Context, to peer.AddrInfo) (again bool, err error) {
	dialling, over := n.arrivals.dialling(ctx, to.ID)
	defer over()
	err = n.host.Connect(network.WithAllowLimitedConn(dialling, "small things"), to)
	return err != nil && dialling.Err() != nil, err
}
