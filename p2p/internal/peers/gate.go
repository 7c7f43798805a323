package peers

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

// ProtocolAdmit is the ID of the streams on which peers ask for admission.
const ProtocolAdmit = "/p2pdiloco/admit/1.0.0"

// Gatekeeper decides which peers are let into a private run. Its methods are called from any
// goroutine and must not block for long. The contents of asks and answers are opaque here.
type Gatekeeper interface {
	// Ask is what this peer says first to another one.
	Ask(to slot.PeerID) []byte
	// Answer judges the ask of another peer, and says what to answer. true admits it.
	Answer(from slot.PeerID, ask []byte) (answer []byte, admitted bool)
	// Judge takes in the answer to an ask. nil admits the peer that gave it.
	Judge(from slot.PeerID, ask, answer []byte) error
}

// ErrNotAdmitted is wrapped where a stream is asked for to a peer that is not let into the run, or
// does not let this one in.
var ErrNotAdmitted = errors.New("not admitted to the private run")

// Bounds on admission.
const (
	maxAsk    = 1 << 10  // bytes
	maxAnswer = 64 << 10 // bytes

	admitTimeout = 10 * time.Second
	// AskAgain is the pause after a refusal, or silence.
	AskAgain = time.Second
	maxAsked = 4096 // peers whose last failure is remembered
)

// GateConfig is what a Gate needs of the Network that it closes.
type GateConfig struct {
	Env
	Open func(ctx context.Context, to slot.PeerID, proto string) (wire.Stream, error)
}

// Gate knows which peers are admitted.
type Gate struct {
	env         GateConfig
	keeper      Gatekeeper
	unsubscribe func()
	calls       *Group // goroutines that may call keeper; stopped when the gate is lifted
	mu          struct {
		sync.Mutex
		// and connected: at the other end of a new connection may be a new process, which does not
		// know us
		admitted map[peer.ID]struct{}
		purges   int // what was decided before the last one may be wrong
		asking   map[peer.ID]*asking
	}
}

// NewGate makes a Gate that refuses the peers that keeper has not admitted. The caller serves
// ProtocolAdmit with Answer, and lifts the gate.
func NewGate(env GateConfig, keeper Gatekeeper) *Gate {
	g := &Gate{env: env, keeper: keeper, calls: NewGroup(env.Tasks.Context())}
	g.mu.admitted, g.mu.asking = make(map[peer.ID]struct{}), make(map[peer.ID]*asking)
	g.unsubscribe = env.OnConnection(func(id peer.ID, connected bool) {
		if !connected && !env.Connected(id) {
			g.forget(id)
		}
	})
	return g
}

// Lift ends the gate. It returns when the keeper is not called any more.
func (g *Gate) Lift() {
	g.unsubscribe()
	g.calls.Stop()
	g.calls.Wait()
}

// Admits says whether a peer may have a stream of a protocol. It is the one place where that is
// decided for streams that come in.
func (g *Gate) Admits(from peer.ID, proto protocol.ID) bool {
	return g == nil || proto == ProtocolAdmit || g.Knows(from)
}

// Pass lets a stream out, once the peer has admitted us and we it.
func (g *Gate) Pass(ctx context.Context, to peer.ID, proto protocol.ID) error {
	if g.Admits(to, proto) {
		return nil
	}
	return g.ask(ctx, to)
}

// StillPasses ends a stream that was opened where Pass let it, if its peer was expelled meanwhile:
// it may be on a connection that came about since.
func (g *Gate) StillPasses(s interface{ Reset() error }, to peer.ID, proto protocol.ID) error {
	if g.Admits(to, proto) {
		return nil
	}
	_ = s.Reset()
	return fmt.Errorf("%w any more", ErrNotAdmitted)
}

// Knows says whether a peer is admitted.
func (g *Gate) Knows(id peer.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.mu.admitted[id]
	return ok
}

// admit lets a peer in for which the keeper has decided when there had been so many purges. false:
// it is to be decided again.
func (g *Gate) admit(id peer.ID, purges int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if purges != g.mu.purges {
		return false
	}
	g.mu.admitted[id] = struct{}{}
	return true
}

func (g *Gate) purges() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.purges
}

// Purge ends the admission of the peers that out names, and returns those that were admitted. The
// keeper decides already as it will from now on; what it was asked before counts no more.
func (g *Gate) Purge(out func(slot.PeerID) bool) (gone []peer.ID) {
	if g == nil {
		return nil
	}
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

func (g *Gate) forget(id peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.admitted, id)
}

// GatedHost is a host whose streams go through the gate: for gossipsub, which opens and takes its
// own.
type GatedHost struct {
	host.Host
	Gate func() *Gate // that is set at the time; nil: there is none
}

// SetStreamHandler implements host.Host.
func (h GatedHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, h.gated(f))
}

// SetStreamHandlerMatch implements host.Host.
func (h GatedHost) SetStreamHandlerMatch(id protocol.ID, match func(protocol.ID) bool, f network.StreamHandler) {
	h.Host.SetStreamHandlerMatch(id, match, h.gated(f))
}

func (h GatedHost) gated(f network.StreamHandler) network.StreamHandler {
	return func(s network.Stream) {
		if !h.Gate().Admits(s.Conn().RemotePeer(), s.Protocol()) {
			_ = s.Reset()
			return
		}
		f(s)
	}
}

// NewStream implements host.Host.
func (h GatedHost) NewStream(ctx context.Context, to peer.ID, ids ...protocol.ID) (network.Stream, error) {
	if err := h.Gate().Pass(ctx, to, ""); err != nil {
		return nil, err
	}
	s, err := h.Host.NewStream(ctx, to, ids...)
	if err != nil {
		return nil, err
	}
	if err := h.Gate().StillPasses(s, to, ""); err != nil {
		return nil, err
	}
	return s, nil
}
