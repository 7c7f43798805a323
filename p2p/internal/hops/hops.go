package hops

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
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
	faultTerm   = time.Minute // for which a forwarder that failed is asked last
	maxFaults   = 1024        // forwarders that failed and are remembered
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
	mu       struct {
		sync.Mutex
		reaches func(to slot.PeerID) []slot.PeerID // nil: nothing is known
		faults  map[peer.ID]time.Time              // when a forwarder last failed
	}
}

// New makes Hops. The caller serves Protocol with Answer.
func New(env Env) (*Hops, error) {
	identity, err := tcpnet.NewIdentity(env.Key)
	if err != nil {
		return nil, err
	}
	h := &Hops{env: env, identity: identity, load: newLoad(), spares: newSpares()}
	h.mu.faults = make(map[peer.ID]time.Time)
	return h, nil
}

// SetReaches sets what tells which members say that they are connected to a peer. nil: nobody is
// asked to forward any more.
func (h *Hops) SetReaches(reaches func(to slot.PeerID) []slot.PeerID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.reaches = reaches
}

// Carries says whether streams of a protocol may be forwarded.
func (h *Hops) Carries(proto protocol.ID) bool { return slices.Contains(h.env.Protocols, proto) }

// Ways lists the members that are connected here and say that they reach a member, in the order in
// which they are asked. Pairs differ in it, so that not all burden the same forwarder.
func (h *Hops) Ways(to peer.ID) []peer.ID {
	h.mu.Lock()
	reaches := h.mu.reaches
	h.mu.Unlock()
	if reaches == nil || !h.env.Members.Has(to) {
		return nil
	}
	var ways []peer.ID
	for _, p := range reaches(slot.PeerID(to)) {
		if id := peer.ID(p); id != to && h.env.Members.Has(id) && h.env.Connected(id) {
			ways = append(ways, id)
		}
	}
	now := time.Now()
	slices.SortFunc(ways, func(a, b peer.ID) int {
		return cmp.Or(cmp.Compare(h.rank(a, now), h.rank(b, now)), cmp.Compare(h.share(a, to), h.share(b, to)),
			cmp.Compare(a, b))
	})
	return ways
}

// rank puts direct ways before relayed ones, and those that failed lately last.
func (h *Hops) rank(via peer.ID, now time.Time) (rank int) {
	h.mu.Lock()
	at, failed := h.mu.faults[via]
	h.mu.Unlock()
	if failed && now.Sub(at) < faultTerm {
		rank += 2
	}
	if !h.env.ConnectedDirectly(via) {
		rank++
	}
	return rank
}

// share is a number that depends on the pair and the forwarder, equal in both directions.
func (h *Hops) share(via, to peer.ID) uint64 {
	self := h.env.Host.ID()
	sum := fnv.New64a()
	for _, id := range []peer.ID{min(self, to), max(self, to), via} {
		_, _ = sum.Write([]byte(id)) // it never fails
	}
	return sum.Sum64()
}

func (h *Hops) failed(via peer.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.mu.faults) >= maxFaults {
		clear(h.mu.faults)
	}
	h.mu.faults[via] = time.Now()
}

// Open opens a stream of a protocol to a member through one of Ways, at once where one is ready
// (spares).
func (h *Hops) Open(ctx context.Context, to peer.ID, proto protocol.ID) (wire.Stream, error) {
	ways := h.Ways(to)
	if len(ways) == 0 {
		return nil, ErrNoWay
	}
	defer h.prepare(to)
	for s := h.spares.take(to); s != nil; s = h.spares.take(to) {
		if slices.Contains(ways, s.via) && s.begin(ctx, proto) == nil {
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
