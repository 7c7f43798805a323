package hops

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tcpnet"
)

// Protocol is the ID of the streams of both legs.
const Protocol = "/p2pdiloco/forward/1.0.0"

const (
	maxTries    = 3               // forwarders that are asked for one stream
	openTimeout = 5 * time.Second // that one of them may take, the target's handshake included
	headTimeout = 10 * time.Second
	knownTerm   = time.Second // for which it is not looked again who reaches whom
)

// ErrNoWay is wrapped where no member that is connected here reaches the peer.
var ErrNoWay = errors.New("no member forwards to it")

// Env is what forwarding needs of the Network around it.
type Env struct {
	peers.Env
	Key       crypto.PrivKey
	Protocols []protocol.ID // those whose streams may be forwarded
	// Open opens a stream of Protocol to a peer that is connected.
	Open func(ctx context.Context, to peer.ID) (wire.Stream, error)
	// Admit has a stream of an origin counted, and returns what handles it, which is called once
	// and closes the stream; nil refuses it.
	Admit func(origin peer.ID, proto protocol.ID) func(wire.Stream)
	// Refuses says that this peer forwards nothing for others.
	Refuses bool
}

// Hops opens streams through forwarders, takes those that come through one, and is a forwarder.
type Hops struct {
	env      Env
	identity *libp2ptls.Identity
	load     *load
	spares   *spares
	faults   *faults
	mu       struct {
		sync.Mutex
		reaches func() map[slot.PeerID][]slot.PeerID // nil: nothing is known
		known   map[peer.ID][]peer.ID                // as it was at a time; never changed once made
		at      time.Time
	}
}

// New makes Hops. The caller serves Protocol with Answer.
func New(env Env) (*Hops, error) {
	identity, err := tcpnet.NewIdentity(env.Key)
	if err != nil {
		return nil, err
	}
	h := &Hops{env: env, identity: identity, load: newLoad(), spares: newSpares(), faults: newFaults()}
	return h, nil
}

// SetReaches sets what tells to whom each member says that it is connected. nil: nobody is asked to
// forward any more.
func (h *Hops) SetReaches(reaches func() map[slot.PeerID][]slot.PeerID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.reaches, h.mu.at = reaches, time.Time{}
}

// Carries says whether streams of a protocol may be forwarded.
func (h *Hops) Carries(proto protocol.ID) bool { return slices.Contains(h.env.Protocols, proto) }

// Ways lists the members that are connected here and say that they reach a member, in the order in
// which they are asked: first the one that the streams are spread to, then in an order that differs
// by pair.
func (h *Hops) Ways(to peer.ID) []peer.ID {
	if !h.env.Members.Has(to) {
		return nil
	}
	reaches, self := h.reaches(), h.env.Host.ID()
	var ways []peer.ID
	for via, others := range reaches {
		if via != to && via != self && slices.Contains(others, to) && h.env.Connected(via) {
			ways = append(ways, via)
		}
	}
	if len(ways) < 2 {
		return ways
	}
	now, first := time.Now(), spread(reaches, self, to)
	slices.SortFunc(ways, func(a, b peer.ID) int {
		return cmp.Or(cmp.Compare(h.rank(a, now), h.rank(b, now)), cmp.Compare(place(a, first), place(b, first)),
			cmp.Compare(share(a, self, to), share(b, self, to)))
	})
	return ways
}

// place is 0 for the first one, and 1 for others.
func place(via, first peer.ID) int {
	if via == first {
		return 0
	}
	return 1
}

// reaches is whom each member reaches, this one included, as it was a moment ago at most; nil if
// nothing is known.
func (h *Hops) reaches() map[peer.ID][]peer.ID {
	h.mu.Lock()
	said, known, at := h.mu.reaches, h.mu.known, h.mu.at
	h.mu.Unlock()
	switch now := time.Now(); {
	case said == nil:
		return nil
	case now.Sub(at) < knownTerm:
		return known
	}
	known = h.look(said)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.known, h.mu.at = known, time.Now()
	return known
}

func (h *Hops) look(said func() map[slot.PeerID][]slot.PeerID) map[peer.ID][]peer.ID {
	reaches := make(map[peer.ID][]peer.ID)
	for via, others := range said() {
		if !h.env.Members.Has(peer.ID(via)) {
			continue
		}
		for _, id := range others {
			if h.env.Members.Has(peer.ID(id)) {
				reaches[peer.ID(via)] = append(reaches[peer.ID(via)], peer.ID(id))
			}
		}
	}
	self := h.env.Host.ID()
	reaches[self] = slices.DeleteFunc(h.env.Members.List(), func(id peer.ID) bool {
		return id == self || !h.env.Connected(id)
	})
	return reaches
}

// rank puts direct ways before relayed ones, and those last that failed lately.
func (h *Hops) rank(via peer.ID, now time.Time) (rank int) {
	if h.faults.has(via, now) {
		rank += 2
	}
	if !h.env.ConnectedDirectly(via) {
		rank++
	}
	return rank
}

func (h *Hops) failed(via peer.ID) { h.faults.note(via, time.Now()) }

// Open opens a stream of a protocol to a member through one of Ways, at once where one is ready
// (spares), unless its forwarder has failed since, and another has not.
func (h *Hops) Open(ctx context.Context, to peer.ID, proto protocol.ID) (wire.Stream, error) {
	ways := h.Ways(to)
	if len(ways) == 0 {
		return nil, ErrNoWay
	}
	defer h.prepare(to)
	now := time.Now()
	for s := h.spares.take(to); s != nil; s = h.spares.take(to) {
		if slices.Contains(ways, s.via) && h.rank(s.via, now) <= h.rank(ways[0], now) && s.begin(ctx, proto) == nil {
			return s, nil
		}
		_ = s.Reset()
	}
	s, err := h.shaken(ctx, to, ways)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, proto); err != nil {
		_ = s.Reset()
		return nil, err
	}
	return s, nil
}

// shaken has a stream to a member, on which the handshake is done, through the first of some ways
// that works.
func (h *Hops) shaken(ctx context.Context, to peer.ID, ways []peer.ID) (*stream, error) {
	var errs []error
	for _, via := range ways[:min(maxTries, len(ways))] {
		s, err := h.through(ctx, via, to)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		h.failed(via)
		errs = append(errs, fmt.Errorf("through %s: %w", slot.PeerID(via).Short(), err))
	}
	return nil, errors.Join(errs...)
}

// through opens a stream through one forwarder. It returns when the target has proven who it is.
func (h *Hops) through(ctx context.Context, via, to peer.ID) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	raw, err := h.env.Open(ctx, via)
	if err != nil {
		return nil, err
	}
	if err := writeHeader(raw, header{legForward, to}); err != nil {
		_ = raw.Reset()
		return nil, err
	}
	conf, _ := h.identity.ConfigForPeer(to)
	s := &stream{raw: raw, via: via, tls: tls.Client(pipe{raw}, only(conf)), broken: func(error) { h.failed(via) }}
	if err := h.shake(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

// only has the handshake be one of forwarded streams, and none of another connection.
func only(conf *tls.Config) *tls.Config {
	conf.NextProtos, conf.DynamicRecordSizingDisabled = []string{Protocol}, true
	return conf
}

// shake does a handshake, and resets the stream if that fails. Once it is done the other end has
// proven that it is the peer that the configuration is for.
func (h *Hops) shake(ctx context.Context, s *stream) error {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.raw.Reset() })
	defer stop()
	if err := s.tls.HandshakeContext(ctx); err != nil {
		_ = s.raw.Reset()
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	if s.tls.ConnectionState().NegotiatedProtocol != Protocol {
		_ = s.raw.Reset()
		return errors.New("the other end does not speak " + Protocol)
	}
	return nil
}
