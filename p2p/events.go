package p2p

import (
	"context"
	"sync"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
)

// events tells who connected and who left. One goroutine calls the subscribers in turn.
type events struct {
	sub event.Subscription
	mu  struct {
		sync.Mutex
		next int
		subs map[int]func(peer.ID, bool)
	}
}

func newEvents(h host.Host) (*events, error) {
	sub, err := h.EventBus().Subscribe(new(event.EvtPeerConnectednessChanged), eventbus.BufSize(1024))
	if err != nil {
		return nil, err
	}
	e := &events{sub: sub}
	e.mu.subs = make(map[int]func(peer.ID, bool))
	return e, nil
}

// subscribe has f called when a peer connects and when its last connection ends, one call at a time and in order. f must not
// block. Peers connected already are not reported. The function returned ends the subscription.
func (e *events) subscribe(f func(peer.ID, bool)) (cancel func()) {
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

func (e *events) run(ctx context.Context) {
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

func (e *events) snapshot() []func(peer.ID, bool) {
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

func (e *events) close() error { return e.sub.Close() }
