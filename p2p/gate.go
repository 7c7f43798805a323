package p2p

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Gatekeeper decides who is let into a private run. Its methods are called from any goroutine and must not block for long. What asks and
// answers say is opaque here.
type Gatekeeper interface {
	// Ask is what this peer says first to another one.
	Ask(to slot.PeerID) []byte
	// Answer judges what another one said so, and what to answer. true admits it.
	Answer(from slot.PeerID, ask []byte) (answer []byte, admitted bool)
	// Judge takes in the answer to an ask. nil admits who gave it.
	Judge(from slot.PeerID, ask, answer []byte) error
}

// ErrNotAdmitted is wrapped where a stream to a peer is asked for that is not let into the run, or does not let us in.
var ErrNotAdmitted = errors.New("not admitted to the private run")

// Bounds on admission.
const (
	maxAsk    = 1 << 10  // bytes
	maxAnswer = 64 << 10 // bytes

	admitTimeout = 10 * time.Second
	askAgain     = time.Second // after a refusal, or silence
	maxAsked     = 4096        // peers whose last failure is remembered
)

// gate is what a Network has with SetGate. Everything that Network serves or opens goes through it: see admit, and pass.
type gate struct {
	n      *Network
	keeper Gatekeeper             // nil: only the list counts
	listed func(slot.PeerID) bool // nil: everybody
	before map[protocol.ID]bool   // what was handled when it was set
	unsub  func()
	ctx    context.Context // ends when it is lifted, or with the Network
	cancel context.CancelFunc
	wg     sync.WaitGroup // who may call keeper
	mu     struct {
		sync.Mutex
		lifted   bool                 // nobody joins wg any more
		admitted map[peer.ID]struct{} // and connected: at the other end of a new connection may be a new process, which does not know us
		purges   int                  // what was decided before the last one may be wrong
		asking   map[peer.ID]*asking
	}
}

// SetGate closes the Network: from now on no protocol serves a peer, and no stream is opened to one, that listed refuses (nil refuses nobody) or
// that keeper, if it is not nil, has not admitted. Peers that are asked for are asked for admission first. What libp2p itself serves
// (identify, the DHT) stays open, and so does hello where there is no keeper: who is not listed is told so. It must be called before
// protocols are handled.
func (n *Network) SetGate(keeper Gatekeeper, listed func(slot.PeerID) bool) error {
	g := &gate{n: n, keeper: keeper, listed: listed}
	g.mu.admitted, g.mu.asking = make(map[peer.ID]struct{}), make(map[peer.ID]*asking)
	g.before = n.handled()
	g.ctx, g.cancel = context.WithCancel(n.ctx)
	if !n.gate.CompareAndSwap(nil, g) {
		g.cancel()
		return errors.New("the network is closed for another run already: a private run needs one of its own")
	}
	g.unsub = n.events.subscribe(func(id peer.ID, connected bool) {
		if !connected && n.host.Network().Connectedness(id) != network.Connected {
			g.forget(id)
		}
	})
	if keeper != nil {
		n.Handle(ProtocolAdmit, g.answer)
	}
	return nil
}

// LiftGate undoes SetGate, if there is a gate: the Network can then be closed for another run. What was handled since is handled no more, for
// it was not meant for everybody. Nothing of the run may use the Network any more. It returns when the keeper is not called any more.
func (n *Network) LiftGate() {
	g := n.gate.Load()
	if g == nil {
		return
	}
	g.unsub()
	for id := range n.handled() {
		if !g.before[id] {
			n.unhandle(id)
		}
	}
	g.mu.Lock()
	g.mu.lifted = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
	n.gate.CompareAndSwap(g, nil)
}

// enter says whether the keeper may still be called; then wg.Done follows.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.lifted {
		return false
	}
	g.wg.Add(1)
	return true
}

// admits says whether a peer may have a stream of a protocol. It is the one place where that is decided for what comes in.
func (n *Network) admits(key inboundKey) bool {
	g := n.gate.Load()
	switch {
	case g == nil:
		return true
	case g.keeper != nil && key.proto == ProtocolAdmit, g.keeper == nil && key.proto == ProtocolHello:
		return true // there a refusal is put in words
	}
	return g.knows(key.from)
}

// pass lets a stream out, once the peer has admitted us and we it.
func (n *Network) pass(ctx context.Context, to peer.ID, proto protocol.ID) error {
	g := n.gate.Load()
	switch {
	case g == nil || g.keeper != nil && proto == ProtocolAdmit || g.knows(to):
		return nil
	case g.keeper == nil || !g.lists(to):
		return fmt.Errorf("%w: it is not on the list", ErrNotAdmitted)
	}
	return g.ask(ctx, to)
}

// stillPasses ends a stream that was opened where pass let it, if its peer was expelled meanwhile: it may be on a connection that came about since.
func (n *Network) stillPasses(s interface{ Reset() error }, to peer.ID, proto protocol.ID) error {
	if n.admits(inboundKey{to, proto}) {
		return nil
	}
	_ = s.Reset()
	return fmt.Errorf("%w any more", ErrNotAdmitted)
}

func (g *gate) lists(id peer.ID) bool { return g.listed == nil || g.listed(slot.PeerID(id)) }

func (g *gate) knows(id peer.ID) bool {
	if !g.lists(id) {
		return false
	}
	if g.keeper == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.mu.admitted[id]
	return ok
}

// admit lets a peer in for which the keeper has decided when there had been so many purges. false: it is to be decided anew.
func (g *gate) admit(id peer.ID, purges int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if purges != g.mu.purges {
		return false
	}
	g.mu.admitted[id] = struct{}{}
	return true
}

func (g *gate) purges() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.purges
}

// Expel ends the admission of the peers that out names, among those admitted, and every connection to them. The keeper decides already as it will from now
// on; what it was asked before counts no more.
func (n *Network) Expel(out func(slot.PeerID) bool) {
	g := n.gate.Load()
	if g == nil {
		return
	}
	for _, id := range g.purge(out) {
		n.greeted.forget(id)
		if n.bulk != nil {
			n.bulk.disconnected(id) // who dials at once is connected again before the end of its connections is told
		}
		if err := n.host.Network().ClosePeer(id); err != nil {
			n.log.Debug("closing the connections of a peer that was let in", "peer", id, "err", err)
		}
	}
}

func (g *gate) purge(out func(slot.PeerID) bool) (gone []peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.purges++
	for id := range g.mu.admitted {
		if out(slot.PeerID(id)) {
			delete(g.mu.admitted, id)
			gone = append(gone, id)
		}
	}
	return gone
}

func (g *gate) forget(id peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.admitted, id)
}
