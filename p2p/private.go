package p2p

import (
	"errors"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Gatekeeper decides which peers are let into a private run.
type Gatekeeper = peers.Gatekeeper

// gate is the one that is set; nil if there is none.
func (n *Network) gate() *peers.Gate {
	if c := n.closure.Load(); c != nil {
		return c.Gate
	}
	return nil
}

// SetGate closes the Network: from now on no protocol serves a peer, and no stream is opened to
// one, that keeper has not admitted. Peers that a stream is opened to are asked for admission
// first. What libp2p itself serves (identify, the DHT) stays open. SetGate must be called before
// protocols are handled.
func (n *Network) SetGate(keeper Gatekeeper) error {
	g := peers.NewGate(peers.GateConfig{Env: n.env, Open: n.Open}, keeper)
	if !n.closure.CompareAndSwap(nil, &closure{g, n.streams.handled()}) {
		g.Lift()
		return errors.New("the network is closed for another run already: a private run needs one of its own")
	}
	n.Handle(ProtocolAdmit, g.Answer)
	return nil
}

// LiftGate undoes SetGate, if there is a gate: the Network can then be closed for another run.
// Protocols that were handled since are handled no more, for they were not meant for everybody.
// Nothing of the run may use the Network any more. It returns when the keeper is not called any
// more.
func (n *Network) LiftGate() {
	c := n.closure.Load()
	if c == nil {
		return
	}
	for id := range n.streams.handled() {
		if c.before[id] == nil {
			n.unhandle(id)
		}
	}
	c.Lift()
	n.closure.CompareAndSwap(c, nil)
}

// Expel ends the admission of the peers that out names, among those admitted, and every connection
// to them. The keeper decides already as it will from now on; what it was asked before counts no
// more.
func (n *Network) Expel(out func(slot.PeerID) bool) {
	for _, id := range n.gate().Purge(out) {
		n.env.Greeted.Forget(id)
		// a peer that dials at once is connected again before the end of its connections is
		// reported
		n.bulk.Disconnected(id)
		if err := n.env.Host.Network().ClosePeer(id); err != nil {
			n.env.Log.Debug("closing the connections of a peer that was let in", "peer", id, "err", err)
		}
	}
}

// Host is the libp2p host, for package gossip: its streams go through the gate, if there is one.
func (n *Network) Host() host.Host {
	if n.gate() == nil {
		return n.env.Host
	}
	return peers.GatedHost{Host: n.env.Host, Gate: n.gate}
}
