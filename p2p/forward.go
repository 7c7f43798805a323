package p2p

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/hops"
)

// headStart is for how long a stream to a member waits for a connection before another member is
// asked to forward it. A pair that is known not to connect has none.
const headStart = time.Second

// openHops begins to forward streams for members, and to take those that were forwarded.
func (n *Network) openHops() (err error) {
	n.hops, err = hops.New(hops.Env{
		Env: n.env, Key: n.key, Protocols: []protocol.ID{ProtocolExchange, ProtocolState, ProtocolAudit},
		Open: n.openLeg, Admit: n.admitForwarded, Refuses: n.cfg.NoForwarding,
	})
	if err == nil {
		n.Handle(ProtocolForward, n.hops.Answer)
	}
	return err
}

// SetReaches sets what tells to whom each member says that it is connected: members are asked to
// forward what is opened with OpenBulk to one that they reach and this peer does not. nil: nobody
// is.
func (n *Network) SetReaches(f func() map[slot.PeerID][]slot.PeerID) { n.hops.SetReaches(f) }

// InReach says whether OpenBulk has a way to a peer now: a connection, or a member in between.
func (n *Network) InReach(to slot.PeerID) bool {
	return n.env.Connected(peer.ID(to)) || n.gate().Lists(peer.ID(to)) && len(n.hops.Ways(peer.ID(to))) > 0
}

// Through is the member through which OpenBulk goes to a peer that is not connected. It is empty
// where the direct way is taken, or there is none.
func (n *Network) Through(to slot.PeerID) slot.PeerID {
	id := peer.ID(to)
	if n.env.Connected(id) || !n.gate().Lists(id) {
		return ""
	}
	if ways := n.hops.Ways(id); len(ways) > 0 {
		return slot.PeerID(ways[0])
	}
	return ""
}

// apart says whether a peer is a member to which a dial has failed lately.
func (n *Network) apart(id peer.ID) bool {
	return n.env.Members.Has(id) && n.env.Host.Network().Connectedness(id) == network.NotConnected &&
		n.env.Dialer.Apart(id)
}

// openAround opens a stream through a third member; nil if there is no need for that, or no way.
func (n *Network) openAround(ctx context.Context, to peer.ID, proto protocol.ID) wire.Stream {
	if !n.hops.Carries(proto) || n.env.Connected(to) || !n.gate().Lists(to) || len(n.hops.Ways(to)) == 0 {
		return nil
	}
	ctx, cancel := n.env.Tasks.Join(ctx)
	defer cancel()
	if n.connects(ctx, to) {
		return nil
	}
	s, err := n.hops.Open(ctx, to, proto)
	if err != nil {
		n.env.Log.Debug("nobody forwards a stream", "protocol", proto, "to", to, "err", err)
		return nil
	}
	return s
}

// connects has a member dialled, and says whether it is connected within its head start.
func (n *Network) connects(ctx context.Context, to peer.ID) bool {
	n.env.Dialer.Again(to)
	if n.env.Dialer.Apart(to) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, headStart)
	defer cancel()
	return n.env.Dialer.Dial(ctx, peer.AddrInfo{ID: to}) == nil && n.env.Connected(to)
}

// openLeg opens one leg of a forwarded stream. It does not dial.
func (n *Network) openLeg(ctx context.Context, to peer.ID) (wire.Stream, error) {
	return n.openBulk(network.WithNoDial(ctx, "forwarding"), slot.PeerID(to), ProtocolForward)
}

// admitForwarded is admitBulk for a stream that came through a forwarder. Its origin is a member,
// and so was let into a private run once: at the gate it cannot ask here, without a connection.
func (n *Network) admitForwarded(from peer.ID, proto protocol.ID) func(wire.Stream) {
	if !n.gate().Lists(from) {
		return nil
	}
	handler, key := n.streams.handler(proto), inboundKey{from, proto}
	if handler == nil || !n.env.Tasks.Enter() {
		return nil
	}
	if !n.streams.enter(key, n.streamsAtOnce(proto)) {
		n.env.Tasks.Leave()
		return nil
	}
	return func(s wire.Stream) {
		defer n.release(key)
		defer s.Close() //nolint:errcheck // nobody is left to tell
		handler(slot.PeerID(from), s)
	}
}
