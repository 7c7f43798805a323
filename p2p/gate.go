package p2p

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
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
		asking   map[peer.ID]*asking
	}
}

// asking is one ask under way, or the last one that failed.
type asking struct {
	done chan struct{}
	err  error
	at   time.Time // when it failed
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

func (g *gate) admit(id peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.admitted[id] = struct{}{}
}

func (g *gate) forget(id peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.admitted, id)
}

// ask asks a peer for admission, once for all who wait for that.
func (g *gate) ask(ctx context.Context, to peer.ID) error {
	g.mu.Lock()
	a := g.mu.asking[to]
	switch {
	case g.mu.lifted:
		g.mu.Unlock()
		return fmt.Errorf("%w: the run is closed here", ErrNotAdmitted)
	case a == nil || !a.at.IsZero() && time.Since(a.at) > askAgain:
		a = g.begin(to)
	case !a.at.IsZero():
		g.mu.Unlock()
		return a.err
	}
	g.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin starts to ask. mu is held.
func (g *gate) begin(to peer.ID) *asking {
	a := &asking{done: make(chan struct{})}
	if len(g.mu.asking) >= maxAsked {
		g.dropFailures()
	}
	g.mu.asking[to] = a
	g.wg.Add(1) // mu is held, and it was not lifted
	if !g.n.goDo(func() { defer g.wg.Done(); g.ended(to, a, g.exchange(to)) }) {
		g.wg.Done()
		a.err, a.at = g.n.closedError(nil), time.Now()
		close(a.done)
	}
	return a
}

func (g *gate) ended(to peer.ID, a *asking, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.err = err; err == nil {
		delete(g.mu.asking, to)
	} else {
		a.at = time.Now()
	}
	close(a.done)
}

// dropFailures forgets who failed. mu is held.
func (g *gate) dropFailures() {
	for id, a := range g.mu.asking {
		if !a.at.IsZero() {
			delete(g.mu.asking, id)
		}
	}
}

func (g *gate) exchange(to peer.ID) error {
	ctx, cancel := context.WithTimeout(g.ctx, admitTimeout)
	defer cancel()
	s, err := g.n.Open(ctx, slot.PeerID(to), ProtocolAdmit)
	if err != nil {
		return err
	}
	defer s.Reset() //nolint:errcheck // everything wanted has been read
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	ask := g.keeper.Ask(slot.PeerID(to))
	if err := errors.Join(wire.WriteMessage(s, ask), s.CloseWrite()); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAdmitted, err)
	}
	answer, err := wire.ReadMessage(s, maxAnswer)
	if err == nil {
		err = g.keeper.Judge(slot.PeerID(to), ask, answer)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotAdmitted, err)
	}
	g.admit(to)
	return nil
}

// answer is the other side of exchange. Anybody may come here: it takes little to read, and less to refuse.
func (g *gate) answer(from slot.PeerID, s wire.Stream) {
	if !g.enter() {
		_ = s.Reset()
		return
	}
	defer g.wg.Done()
	stop := context.AfterFunc(g.ctx, func() { _ = s.Reset() })
	defer stop()
	_ = s.SetDeadline(time.Now().Add(admitTimeout))
	ask, err := wire.ReadMessage(s, maxAsk)
	if err != nil {
		_ = s.Reset()
		return
	}
	answer, admitted := g.keeper.Answer(from, ask)
	if admitted && g.lists(peer.ID(from)) {
		g.admit(peer.ID(from)) // before it can hear of it
	}
	if err := wire.WriteMessage(s, answer); err != nil {
		g.n.log.Debug("admission failed", "peer", from, "err", err)
		_ = s.Reset()
	}
}

// gatedHost is a host whose streams go through the gate: for gossipsub, which opens and takes its own.
type gatedHost struct {
	host.Host
	n *Network
}

// SetStreamHandler implements host.Host.
func (h gatedHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, h.gated(f))
}

// SetStreamHandlerMatch implements host.Host.
func (h gatedHost) SetStreamHandlerMatch(id protocol.ID, match func(protocol.ID) bool, f network.StreamHandler) {
	h.Host.SetStreamHandlerMatch(id, match, h.gated(f))
}

func (h gatedHost) gated(f network.StreamHandler) network.StreamHandler {
	return func(s network.Stream) {
		if !h.n.admits(inboundKey{s.Conn().RemotePeer(), s.Protocol()}) {
			_ = s.Reset()
			return
		}
		f(s)
	}
}

// NewStream implements host.Host.
func (h gatedHost) NewStream(ctx context.Context, to peer.ID, ids ...protocol.ID) (network.Stream, error) {
	if err := h.n.pass(ctx, to, ""); err != nil {
		return nil, err
	}
	return h.Host.NewStream(ctx, to, ids...)
}
