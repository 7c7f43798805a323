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
// On a link that is full a ping may take long; as long as something comes through the relay it lives.
type relayWatch struct {
	n  *Network
	mu struct {
		sync.Mutex
		heard map[peer.ID]time.Time // of relays to which a ping is on its way: when it began, or something came since
	}
}

func newRelayWatch(n *Network) *relayWatch {
	w := &relayWatch{n: n}
	w.mu.heard = make(map[peer.ID]time.Time)
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
	if !w.began(id) {
		return
	}
	if !w.n.goDo(func() { defer w.over(id); w.judge(id) }) {
		w.over(id)
	}
}

// began notes that a ping is on its way, unless one is.
func (w *relayWatch) began(id peer.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, busy := w.mu.heard[id]; busy {
		return false
	}
	w.mu.heard[id] = time.Now()
	return true
}

func (w *relayWatch) over(id peer.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.heard, id)
}

// saw notes that something came through a relay, perhaps one that is asked.
func (w *relayWatch) saw(id peer.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, asked := w.mu.heard[id]; asked {
		w.mu.heard[id] = time.Now()
	}
}

func (w *relayWatch) silence(id peer.ID) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.mu.heard[id])
}

// judge disconnects a relay that neither answers nor has anything come through it.
func (w *relayWatch) judge(id peer.ID) {
	ctx, cancel := context.WithCancel(w.n.ctx)
	defer cancel()
	answer := make(chan error, 1)
	if !w.n.goDo(func() { _, err := w.n.ping(ctx, id); answer <- err }) {
		return
	}
	patience := max(pulsesMissed*w.n.cfg.Pulse, leastRelaySilence)
	for left := patience; left > 0; left = patience - w.silence(id) {
		timer := time.NewTimer(left)
		select {
		case err := <-answer: // or it says that it will not
			timer.Stop()
			if err != nil && w.n.ctx.Err() == nil {
				w.n.log.Debug("a ping of a relay failed", "relay", id, "err", err)
			}
			return
		case <-timer.C:
		}
	}
	if w.n.connectedDirectly(id) {
		w.n.log.Debug("a relay is silent: disconnecting", "relay", id)
		_ = w.n.host.Network().ClosePeer(id) // it is gone in any case
	}
}
