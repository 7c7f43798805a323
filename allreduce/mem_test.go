package allreduce

import (
	"context"
	"errors"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

// memNet connects engines. wrap, if set, may replace the stream of an end by something worse.
type memNet struct {
	size int // bytes that a direction buffers
	wrap func(local, remote slot.PeerID, s wire.Stream) wire.Stream
	// streams to this peer are held open, and nobody serves them
	silent slot.PeerID
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		engines map[slot.PeerID]*Engine
	}
}

func newMemNet(size int) *memNet {
	n := &memNet{size: size}
	n.mu.engines = make(map[slot.PeerID]*Engine)
	return n
}

func (n *memNet) add(e *Engine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.engines[e.cfg.Self] = e
}

func (n *memNet) alive(p slot.PeerID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.engines[p] != nil
}

// memTransport is one peer's view of the net.
type memTransport struct {
	net  *memNet
	self slot.PeerID
}

func (t memTransport) Open(_ context.Context, peer slot.PeerID) (wire.Stream, error) {
	t.net.mu.Lock()
	e := t.net.mu.engines[peer]
	t.net.mu.Unlock()
	if e == nil {
		return nil, errors.New("no such peer")
	}
	var a, b wire.Stream
	a, b = wiretest.Pipe(t.net.size)
	if t.net.wrap != nil {
		a, b = t.net.wrap(t.self, peer, a), t.net.wrap(peer, t.self, b)
	}
	if peer == t.net.silent {
		return a, nil
	}
	t.net.wg.Go(func() { _ = e.Accept(t.self, b) })
	return a, nil
}
