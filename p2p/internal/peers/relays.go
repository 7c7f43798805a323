package peers

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
)

// leastRelaySilence is how long a relay may leave a ping unanswered at least: what is relayed may
// be before it in the queue.
const leastRelaySilence = 5 * time.Second

// Relays notices relays that have gone silent. Members pulse to each other, other relays to nobody;
// over QUIC, or where a link is cut, libp2p takes 30 to 45 s to notice. A relay in use that leaves
// a ping unanswered is disconnected: then this peer looks for another, and what went through it
// ends. On a link that is full a ping may take long; as long as something comes through the relay
// it lives.
type Relays struct {
	mu struct {
		sync.Mutex
		// of relays to which a ping is on its way: when it began, or something came since
		heard map[peer.ID]time.Time
	}
}

// NewRelays watches none yet.
func NewRelays() *Relays {
	r := &Relays{}
	r.mu.heard = make(map[peer.ID]time.Time)
	return r
}

// Watch pings the relays in use at an interval, until the task group ends. Those that are members
// are judged by their pulses.
func (r *Relays) Watch(env Env, every time.Duration, inUse func() map[peer.ID]bool) {
	w := relayWatch{r, env, every}
	env.Tasks.Every(every, func(time.Time) {
		for id := range inUse() {
			w.ask(id)
		}
	})
}

// relayWatch judges relays by what is known of them.
type relayWatch struct {
	*Relays
	env   Env
	every time.Duration
}

func (w relayWatch) ask(id peer.ID) {
	if w.env.Members.Has(id) || !w.began(id) {
		return
	}
	if !w.env.Tasks.Go(func() { defer w.over(id); w.judge(id) }) {
		w.over(id)
	}
}

// began notes that a ping is on its way, unless one is.
func (r *Relays) began(id peer.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, busy := r.mu.heard[id]; busy {
		return false
	}
	r.mu.heard[id] = time.Now()
	return true
}

func (r *Relays) over(id peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.heard, id)
}

// Saw notes that something came through a relay, perhaps one that is asked.
func (r *Relays) Saw(id peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, asked := r.mu.heard[id]; asked {
		r.mu.heard[id] = time.Now()
	}
}

func (r *Relays) silence(id peer.ID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.mu.heard[id])
}

// judge disconnects a relay that neither answers nor has anything come through it.
func (w relayWatch) judge(id peer.ID) {
	ctx, cancel := context.WithCancel(w.env.Tasks.Context())
	defer cancel()
	answer := make(chan error, 1)
	if !w.env.Tasks.Go(func() { _, err := Ping(ctx, w.env.Host, id); answer <- err }) {
		return
	}
	patience := max(pulsesMissed*w.every, leastRelaySilence)
	for left := patience; left > 0; left = patience - w.silence(id) {
		timer := time.NewTimer(left)
		select {
		case err := <-answer: // or it says that it will not
			timer.Stop()
			if err != nil && w.env.Tasks.Context().Err() == nil {
				w.env.Log.Debug("a ping of a relay failed", "relay", id, "err", err)
			}
			return
		case <-timer.C:
		}
	}
	if w.env.ConnectedDirectly(id) {
		w.env.Log.Debug("a relay is silent: disconnecting", "relay", id)
		_ = w.env.Host.Network().ClosePeer(id) // it is gone in any case
	}
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
