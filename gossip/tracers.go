package gossip

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/time/rate"
)

// tracer sees the messages that gossipsub rejects.
//
// What is malformed, or not signed by its author, no honest peer passes on: that is an offence of
// the neighbour.
//
// What comes from others under this peer's own name is most of it announcements of its own that
// come back, or old ones that somebody says again. But it may also be another process that uses a
// copy of the identity, and nobody else can tell this peer about that. The signature that gossipsub
// puts on messages is not checked for these: bodies that matter bear one of their own.
type tracer struct {
	silent
	cfg      Config
	offended func(by peer.ID)
	echoes   *rate.Limiter
}

// Echoes are looked at so often: one that matters comes again.
const (
	echoRate  = 4
	echoBurst = 16
)

func newTracer(cfg Config, offended func(by peer.ID)) *tracer {
	return &tracer{cfg: cfg, offended: offended, echoes: rate.NewLimiter(echoRate, echoBurst)}
}

// RejectMessage implements pubsub.RawTracer.
func (t *tracer) RejectMessage(m *pubsub.Message, reason string) {
	switch reason {
	case pubsub.RejectValidationFailed, pubsub.RejectInvalidSignature, pubsub.RejectMissingSignature:
		t.offended(m.ReceivedFrom)
	case pubsub.RejectSelfOrigin:
		t.echo(m)
	}
}

func (t *tracer) echo(m *pubsub.Message) {
	if t.cfg.Echo == nil {
		return
	}
	a, err := parse(m.Data)
	if err == nil && slices.Contains(t.cfg.Kinds, a.kind) && t.echoes.Allow() {
		t.cfg.Echo(a.kind, slices.Clone(a.body))
	}
}

func (t *Topic) offended(by peer.ID) {
	if t.bad.note(by, time.Now()) {
		t.cfg.Logger.Warn("a neighbour announces junk: nothing is heard of it for a while", "peer", by, "for", muteFor)
	}
}

// inspect removes the messages from what a muted neighbour sends. Its topic subscriptions stay,
// because the neighbour may be heard again later.
func (t *Topic) inspect(from peer.ID, rpc *pubsub.RPC) error {
	if len(rpc.Publish) > 0 && t.bad.muted(from, time.Now()) {
		rpc.Publish = nil
	}
	return nil
}

// silent is a pubsub.RawTracer that is not interested.
type silent struct{}

// OnNewOutboundStream implements pubsub.RawTracer, like all below.
func (silent) OnNewOutboundStream(peer.ID, protocol.ID) {}
func (silent) OnClosedOutboundStream(peer.ID)           {}
func (silent) Join(string)                              {}
func (silent) Leave(string)                             {}
func (silent) Graft(peer.ID, string)                    {}
func (silent) Prune(peer.ID, string)                    {}
func (silent) ValidateMessage(*pubsub.Message)          {}
func (silent) DeliverMessage(*pubsub.Message)           {}
func (silent) RejectMessage(*pubsub.Message, string)    {}
func (silent) DuplicateMessage(*pubsub.Message)         {}
func (silent) ThrottlePeer(peer.ID)                     {}
func (silent) RecvRPC(*pubsub.RPC)                      {}
func (silent) SendRPC(*pubsub.RPC, peer.ID)             {}
func (silent) DropRPC(*pubsub.RPC, peer.ID)             {}
func (silent) UndeliverableMessage(*pubsub.Message)     {}

// quiet passes errors on alone. pubsub warns of ordinary things: if a neighbour's connection has
// just gone, it warns once a message.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && q.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

// A neighbour may send a few messages that no honest peer sends: this many at once, and this many a
// second. Above that, all that it passes on is ignored for a while, so that no time is spent on its
// signatures, some 100 µs each.
const (
	offencesRate  = 2
	offencesBurst = 128
	muteFor       = time.Minute
	maxOffenders  = 4096 // offenders that are remembered
)

// offenders are the neighbours that have sent messages that no honest peer sends.
type offenders struct {
	mu struct {
		sync.Mutex
		by *simplelru.LRU[peer.ID, *offender]
	}
}

type offender struct {
	left  *rate.Limiter
	muted time.Time // until then
}

func newOffenders() *offenders {
	o := &offenders{}
	o.mu.by, _ = simplelru.NewLRU[peer.ID, *offender](maxOffenders, nil) // fails for a size of 0
	return o
}

// note counts an offence. It returns whether that is one too many.
func (o *offenders) note(id peer.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, known := o.mu.by.Get(id)
	if !known {
		of = &offender{left: rate.NewLimiter(offencesRate, offencesBurst)}
		o.mu.by.Add(id, of)
	}
	if of.left.AllowN(now, 1) {
		return false
	}
	fresh := !of.muted.After(now)
	of.muted = now.Add(muteFor)
	return fresh
}

// muted says whether all messages of a neighbour are ignored.
func (o *offenders) muted(id peer.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, known := o.mu.by.Peek(id)
	return known && of.muted.After(now)
}
