package gossip

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// echoes sees what comes from others under this peer's own name, which gossipsub drops: most of it
// announcements of its own that come back, or old ones that somebody says again. But it may also be
// another process that uses a copy of the identity, and nobody else can tell this peer about that.
// The signature that gossipsub puts on messages is not checked for these: bodies that matter bear
// one of their own.
type echoes struct {
	silent
	cfg Config
	mu  struct {
		sync.Mutex
		bucket bucket
	}
}

// Echoes are looked at so often: one that matters comes again.
const (
	echoRate  = 4.0
	echoBurst = 16.0
)

// RejectMessage implements pubsub.RawTracer.
func (e *echoes) RejectMessage(m *pubsub.Message, reason string) {
	if reason != pubsub.RejectSelfOrigin || e.cfg.Echo == nil {
		return
	}
	a, err := parse(m.Data, e.cfg.MaxBody)
	if err != nil || !slices.Contains(e.cfg.Kinds, a.kind) || !e.due(time.Now()) {
		return
	}
	e.cfg.Echo(a.kind, slices.Clone(a.body))
}

func (e *echoes) due(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.mu.bucket.has(now, echoRate, echoBurst, 1) {
		return false
	}
	e.mu.bucket.tokens--
	return true
}

// rejections reports to the topic which neighbours passed on messages that are malformed or not
// signed by their author. No honest peer does that.
type rejections struct {
	silent
	topic *Topic
}

// RejectMessage implements pubsub.RawTracer.
func (r *rejections) RejectMessage(m *pubsub.Message, reason string) {
	switch reason {
	case pubsub.RejectValidationFailed, pubsub.RejectInvalidSignature, pubsub.RejectMissingSignature:
		r.topic.offended(m.ReceivedFrom)
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

// quiet passes errors on and turns all other messages into debug output. pubsub warns of ordinary
// things: if a neighbour's connection has just gone, it warns once a message.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, lower(level))
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lower(r.Level)
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

func lower(level slog.Level) slog.Level {
	if level < slog.LevelError {
		return slog.LevelDebug
	}
	return level
}
