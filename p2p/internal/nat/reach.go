package nat

import (
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

// Reach is how this peer can be reached by others.
type Reach struct {
	// an address that nearly all can dial is known to be reachable: announced by Config, or tried
	// by others (AutoNATv2)
	Public   bool          `json:"public"`
	Tried    []string      `json:"tried,omitempty"`    // public addresses that others reached
	Failed   []string      `json:"failed,omitempty"`   // and those that they could not reach
	Relays   []slot.PeerID `json:"relays,omitempty"`   // through which this peer can be reached
	Relaying bool          `json:"relaying,omitempty"` // this peer relays for others
	Carried  Bytes         `json:"carried"`            // what it has relayed: sent on, and taken in
}

// Bytes are numbers of bytes, each way.
type Bytes struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
}

// Reachability keeps what is known of how this peer can be reached.
type Reachability struct {
	env      Env
	announce []multiaddr.Multiaddr
	sub      event.Subscription
	mu       struct {
		sync.Mutex
		forced        network.Reachability // of the host, by its maker
		tried, failed []multiaddr.Multiaddr
	}
}

func newReachability(env Env, announce []string) (*Reachability, error) {
	sub, err := env.Host.EventBus().Subscribe([]any{
		new(event.EvtHostReachableAddrsChanged), new(event.EvtLocalReachabilityChanged),
		new(event.EvtLocalAddressesUpdated),
	}, eventbus.BufSize(64))
	return &Reachability{env: env, announce: addr.Parse(announce), sub: sub}, err
}

// run takes in what libp2p finds out, and calls follow after each change.
func (r *Reachability) run(follow func()) {
	defer r.sub.Close() //nolint:errcheck // nobody is left to tell
	for {
		follow()
		select {
		case <-r.env.Tasks.Context().Done():
			return
		case ev, ok := <-r.sub.Out():
			if !ok {
				return
			}
			r.take(ev)
		}
	}
}

func (r *Reachability) take(ev any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch ev := ev.(type) {
	case event.EvtHostReachableAddrsChanged:
		r.mu.tried, r.mu.failed = ev.Reachable, ev.Unreachable
	case event.EvtLocalReachabilityChanged:
		// AutoNAT's first version believes any stranger: only the maker of a host may say so
		if !r.env.OwnHost {
			r.mu.forced = ev.Reachability
		}
	}
}

// public says whether this peer is known to be reachable from everywhere.
func (r *Reachability) public() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.forced == network.ReachabilityPublic || slices.ContainsFunc(r.mu.tried, addr.FromEverywhere) ||
		slices.ContainsFunc(r.announce, addr.FromEverywhere)
}

func texts(addrs []multiaddr.Multiaddr) (out []string) {
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}

// addrs are the public addresses that others reached, and those that they could not reach.
func (r *Reachability) addrs() (tried, failed []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return texts(r.mu.tried), texts(r.mu.failed)
}
