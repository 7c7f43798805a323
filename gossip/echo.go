package gossip

import (
	"slices"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
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
