package peers

import (
	"context"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

// ConnectedDirectly says whether there is a connection to a peer that goes through no relay.
func ConnectedDirectly(on network.Network, id peer.ID) bool {
	return slices.ContainsFunc(on.ConnsToPeer(id), func(c network.Conn) bool {
		return !c.IsClosed() && !addr.IsRelayed(c.RemoteMultiaddr())
	})
}

// BestConn is the connection to a peer that new streams take: direct before relayed, relayed before
// limited.
func BestConn(on network.Network, id peer.ID) (best network.Conn, ok bool) {
	for _, c := range on.ConnsToPeer(id) {
		if !c.IsClosed() && (best == nil || wayRank(c) < wayRank(best)) {
			best = c
		}
	}
	return best, best != nil
}

func wayRank(c network.Conn) int {
	switch {
	case c.Stat().Limited:
		return 2
	case addr.IsRelayed(c.RemoteMultiaddr()):
		return 1
	}
	return 0
}

// Speaks says whether a peer has reported that it speaks a protocol.
func Speaks(h host.Host, id peer.ID, proto protocol.ID) bool {
	known, err := h.Peerstore().SupportsProtocols(id, proto)
	return err == nil && slices.Contains(known, proto)
}

// Events reports which peers connect and leave. One goroutine calls the subscribers in turn.
type Events struct {
	sub event.Subscription
	mu  struct {
		sync.Mutex
		next int
		subs map[int]func(peer.ID, bool)
	}
}

// NewEvents subscribes to the host. The caller runs and closes it.
func NewEvents(h host.Host) (*Events, error) {
	sub, err := h.EventBus().Subscribe(new(event.EvtPeerConnectednessChanged), eventbus.BufSize(1024))
	if err != nil {
		return nil, err
	}
	e := &Events{sub: sub}
	e.mu.subs = make(map[int]func(peer.ID, bool))
	return e, nil
}

// Subscribe has f called when a peer connects and when its last connection ends, one call at a time
// and in order. f must not block. Peers connected already are not reported. The function returned
// ends the subscription.
func (e *Events) Subscribe(f func(peer.ID, bool)) (cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := e.mu.next
	e.mu.next++
	e.mu.subs[id] = f
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.mu.subs, id)
	}
}

// Run calls the subscribers until ctx ends.
func (e *Events) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case v, ok := <-e.sub.Out():
			if !ok {
				return
			}
			ev := v.(event.EvtPeerConnectednessChanged)
			for _, f := range e.snapshot() {
				f(ev.Peer, ev.Connectedness != network.NotConnected)
			}
		}
	}
}

func (e *Events) snapshot() []func(peer.ID, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]func(peer.ID, bool), 0, len(e.mu.subs))
	for id := range e.mu.next {
		if f, ok := e.mu.subs[id]; ok {
			out = append(out, f)
		}
	}
	return out
}

// Close ends the subscription to the host.
func (e *Events) Close() error { return e.sub.Close() }
