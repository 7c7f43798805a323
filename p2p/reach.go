package p2p

import (
	"context"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Reach is how this peer can be reached by others.
type Reach struct {
	Public   bool          `json:"public"`             // an address that nearly all can dial is known to be reachable: announced by Config, or tried by others (AutoNATv2)
	Tried    []string      `json:"tried,omitempty"`    // public addresses that others reached
	Failed   []string      `json:"failed,omitempty"`   // and those that they could not reach
	Relays   []slot.PeerID `json:"relays,omitempty"`   // through which this peer can be reached
	Relaying bool          `json:"relaying,omitempty"` // this peer relays for others
	Carried  Bytes         `json:"carried"`            // what it has relayed: sent on, and taken in
}

// reachability keeps what is known of how this peer can be reached.
type reachability struct {
	n   *Network
	sub event.Subscription
	mu  struct {
		sync.Mutex
		forced        network.Reachability // of the host, by whoever made it
		tried, failed []multiaddr.Multiaddr
	}
}

func newReachability(n *Network) (*reachability, error) {
	sub, err := n.host.EventBus().Subscribe([]any{
		new(event.EvtHostReachableAddrsChanged), new(event.EvtLocalReachabilityChanged), new(event.EvtLocalAddressesUpdated),
	}, eventbus.BufSize(64))
	return &reachability{n: n, sub: sub}, err
}

// run takes in what libp2p finds out, and has relaying and reservations follow.
func (r *reachability) run(ctx context.Context) {
	defer r.sub.Close() //nolint:errcheck // nobody is left to tell
	for {
		r.follow()
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-r.sub.Out():
			if !ok {
				return
			}
			r.take(ev)
		}
	}
}

func (r *reachability) take(ev any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch ev := ev.(type) {
	case event.EvtHostReachableAddrsChanged:
		r.mu.tried, r.mu.failed = ev.Reachable, ev.Unreachable
	case event.EvtLocalReachabilityChanged:
		if !r.n.ownHost { // AutoNAT's first version takes any stranger's word: only who made a host may say so
			r.mu.forced = ev.Reachability
		}
	}
}

func (r *reachability) follow() {
	if err := r.n.relaying.set(r.public()); err != nil {
		r.n.log.Warn("this peer cannot relay for others", "err", err)
	}
	r.n.reserved.look()
}

// public says whether this peer is known to be reachable from everywhere.
func (r *reachability) public() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.forced == network.ReachabilityPublic || slices.ContainsFunc(r.mu.tried, fromEverywhere) ||
		slices.ContainsFunc(parsed(r.n.cfg.Announce), fromEverywhere)
}

// fromEverywhere says whether an address is one that nearly all peers can dial. Where only IPv6 gets through, those that have none need a relay.
func fromEverywhere(a multiaddr.Multiaddr) bool {
	var names []string
	for _, p := range a.Protocols() {
		if p.Code != multiaddr.P_P2P {
			names = append(names, p.Name)
		}
	}
	if len(names) < 2 || !slices.Contains([]string{"ip4", "dns4", "dns"}, names[0]) {
		return false
	}
	way := names[1:]
	return slices.Equal(way, []string{"tcp"}) || slices.Equal(way, []string{"udp", "quic-v1"})
}

// Reach tells how this peer can be reached.
func (n *Network) Reach() Reach {
	r := Reach{Public: n.reachable.public(), Relaying: n.relaying.serving()}
	r.Carried = Bytes{n.relaying.carried.sent.Load(), n.relaying.carried.received.Load()}
	for _, id := range n.reserved.relays() {
		r.Relays = append(r.Relays, slot.PeerID(id))
	}
	n.reachable.mu.Lock()
	defer n.reachable.mu.Unlock()
	r.Tried, r.Failed = texts(n.reachable.mu.tried), texts(n.reachable.mu.failed)
	return r
}

func texts(addrs []multiaddr.Multiaddr) (out []string) {
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}

// speaks says whether a peer has told that it speaks a protocol.
func (n *Network) speaks(id peer.ID, proto protocol.ID) bool {
	known, err := n.host.Peerstore().SupportsProtocols(id, proto)
	return err == nil && slices.Contains(known, proto)
}

// announcing puts the addresses that are given among those that others are told.
func announcing(given []string) func([]multiaddr.Multiaddr) []multiaddr.Multiaddr {
	fixed := parsed(given)
	return func(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr { return append(slices.Clone(fixed), addrs...) }
}

func parsed(given []string) (addrs []multiaddr.Multiaddr) {
	for _, s := range given {
		if a, err := multiaddr.NewMultiaddr(s); err == nil { // Validate has refused what does not parse
			addrs = append(addrs, a)
		}
	}
	return addrs
}
