package gossip

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Config configures a Topic. Topic, Kinds and Deliver must be set.
type Config struct {
	// Topic names the topic. Peers of one run use the same.
	Topic string
	// Protocol, if set, is the gossipsub protocol's ID, in place of one that comes from the topic's
	// name: libp2p's identify reports it to anybody, and it would show which hosts share a topic. A
	// host can be in one topic of a protocol.
	Protocol string
	// Boot rises with each start of this peer: a counter kept on disk, never a clock. Messages of a
	// lower boot than one heard before are ignored by all.
	Boot uint64
	// Epoch, if set, tells an author's epochs apart by a body: the count of its boots starts again
	// with each. An author that lost its count would not be heard otherwise. It must be quick.
	Epoch func(body []byte) uint64
	// Kinds are the kinds of announcements that exist.
	Kinds []uint8
	// Deliver gets each announcement of another peer that went through all checks, one call at a
	// time. While it blocks, up to 1024 announcements wait, then they are dropped. body belongs to
	// it.
	Deliver func(from slot.PeerID, kind uint8, body []byte)
	// Echo, if set, gets some of what others announce under this peer's own name. Such an
	// announcement may be an old one of this peer. It must not block.
	Echo func(kind uint8, body []byte)
	// Check, if set, says whether an announcement may be an honest peer's, before it is delivered
	// and passed on. It is called from several goroutines and must neither block nor keep body.
	Check func(from slot.PeerID, kind uint8, body []byte) bool
	// Heartbeat is the time between two rounds of gossipsub's upkeep of its mesh. Default 1 s; 250
	// ms on a local network.
	Heartbeat time.Duration
	// Logger is silent when nil.
	Logger *slog.Logger
}

// MaxBody is the most that an announcement's body may hold. What is larger is fetched by hash.
const MaxBody = 64 << 10

// queue bounds what waits for Deliver, for validation, and for each neighbour.
const queue = 1024

// LANHeartbeat is a Heartbeat for peers on one network: they need not wait seconds until a mesh has
// formed.
const LANHeartbeat = 250 * time.Millisecond

func (c Config) withDefaults() Config {
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Epoch == nil {
		c.Epoch = func([]byte) uint64 { return 0 }
	}
	c.Kinds = slices.Clone(c.Kinds)
	return c
}

// Validate reports every fault of c at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(fault string) { errs = append(errs, errors.New("gossip: "+fault)) }
	if c.Topic == "" {
		bad("a topic name is needed")
	}
	if len(c.Kinds) == 0 {
		bad("at least one kind of announcement is needed")
	}
	if c.Deliver == nil {
		bad("Deliver must be set")
	}
	if c.Heartbeat < 0 {
		bad("Heartbeat must be above 0")
	}
	return errors.Join(errs...)
}
