package p2p

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

// leastRelaySilence is how long a relay may leave a ping unanswered at least: what is relayed may be before it in the queue.
const leastRelaySilence = 5 * time.Second

// relayWatch notices relays that have gone silent. Members pulse to each other, relays to nobody; over QUIC, or where a link is cut, libp2p takes 30
// to 45 s to notice. A relay in use that leaves a ping unanswered is disconnected: then this peer looks for another, and what went through it ends.
type relayWatch struct {
	n  *Network
	mu struct {
		sync.Mutex
		asked map[peer.ID]bool // a ping is on its way
	}
}

func newRelayWatch(n *Network) *relayWatch {
	w := &relayWatch{n: n}
	w.mu.asked = make(map[peer.ID]bool)
	return w
}

func (w *relayWatch) run() {
	tick := time.NewTicker(w.n.cfg.Pulse)
	defer tick.Stop()
	for {
		select {
		case <-w.n.ctx.Done():
			return
		case <-tick.C:
		}
		for id := range w.n.relaysInUse() {
			w.ask(id)
		}
	}
}

// relaysInUse are those through which this peer can be reached, or has a connection.
func (n *Network) relaysInUse() map[peer.ID]bool {
	used := make(map[peer.ID]bool)
	for _, id := range n.reserved.relays() {
		used[id] = true
	}
	for _, c := range n.host.Network().Conns() {
		if id, ok := relayOf(c.RemoteMultiaddr()); ok {
			used[id] = true
		}
	}
	return used
}

// relayOf is the relay through which an address leads.
func relayOf(a multiaddr.Multiaddr) (peer.ID, bool) {
	if !isRelayed(a) {
		return "", false
	}
	text, err := a.ValueForProtocol(multiaddr.P_P2P)
	if err != nil {
		return "", false
	}
	id, err := peer.Decode(text)
	return id, err == nil
}

func (w *relayWatch) ask(id peer.ID) {
	w.mu.Lock()
	busy := w.mu.asked[id]
	w.mu.asked[id] = true
	w.mu.Unlock()
	if busy {
		return
	}
	done := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.mu.asked, id)
	}
	if !w.n.goDo(func() { defer done(); w.judge(id) }) {
		done()
	}
}

func (w *relayWatch) judge(id peer.ID) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.n.ctx, max(pulsesMissed*w.n.cfg.Pulse, leastRelaySilence))
	defer cancel()
	if _, err := w.n.ping(ctx, id); err == nil || w.n.ctx.Err() != nil || !w.n.connectedDirectly(id) {
		return
	} else if ctx.Err() == nil {
		w.n.log.Debug("a ping of a relay failed", "relay", id, "after", time.Since(began), "err", err)
		return // it answered that it will not
	}
	w.n.log.Debug("a relay is silent: disconnecting", "relay", id)
	_ = w.n.host.Network().ClosePeer(id) // it is gone in any case
}
