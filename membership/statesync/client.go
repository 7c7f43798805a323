package statesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Opener opens a stream to a peer's Server.
type Opener interface {
	Open(ctx context.Context, peer slot.PeerID) (wire.Stream, error)
}

// ErrNoDonor is wrapped when nobody (any more) gives what is wanted.
var ErrNoDonor = errors.New("statesync: nobody gives what is wanted")

// Config bounds a client. The zero value means the defaults.
type Config struct {
	Timeout  time.Duration // for a stream to open and for something of a chunk or frame to arrive; for all of it 10 times that: 30 s
	Survey   time.Duration // after somebody was found to hold a wanted state, others have so long to say that they do: 2 s
	Poll     time.Duration // how often the list of peers is asked anew: 1 s
	Patience time.Duration // FetchState goes on so long without any donor, waiting for new ones: 10 s
	Slow     time.Duration // with nothing else left to fetch, a piece under way for so long is fetched from a second donor: 3 s
	Donors   int           // at once: 8
	Streams  int           // to each of them, one piece in flight on each: 2
	Logger   *slog.Logger  // silent if nil
	// OnDrop, if set, is told of every donor as it is dropped. It must not block.
	OnDrop func(Bad)
}

func (c Config) withDefaults() Config {
	c.Timeout = orDefault(c.Timeout, 30*time.Second)
	c.Survey = orDefault(c.Survey, 2*time.Second)
	c.Poll = orDefault(c.Poll, time.Second)
	c.Patience = orDefault(c.Patience, 10*time.Second)
	c.Slow = orDefault(c.Slow, 3*time.Second)
	c.Donors = orDefault(c.Donors, 8)
	c.Streams = orDefault(c.Streams, 2)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Client fetches. Its methods may be called from any goroutine; each waits for what it started.
type Client struct {
	open Opener
	cfg  Config
	zip  *zip
}

// NewClient makes a client. It holds nothing that needs closing.
func NewClient(open Opener, cfg Config) *Client {
	return &Client{open: open, cfg: cfg.withDefaults(), zip: newZip()}
}

// Bad is a donor that was dropped.
type Bad struct {
	Peer   slot.PeerID
	Reason string // plain words
	Lied   bool   // it sent bytes that are not what was asked for; else it was slow, busy or unreachable
}

// Report says where the bytes of a fetch came from.
type Report struct {
	Bytes   int64                 // that travelled, of the pieces used
	Decoded int64                 // what they came to
	Resumed int64                 // of the state, on disk from an earlier fetch of it
	Sources map[slot.PeerID]int64 // Bytes by donor
	Bad     []Bad                 // in the order in which they were dropped
	Elapsed time.Duration
}

func (r *Report) bad(p slot.PeerID) bool {
	return slices.ContainsFunc(r.Bad, func(b Bad) bool { return b.Peer == p })
}

// drop notes a donor that is not asked again in this fetch.
func (c *Client) drop(r *Report, b Bad) {
	if r.bad(b.Peer) {
		return
	}
	c.cfg.Logger.Warn("dropped a donor", "peer", b.Peer, "reason", b.Reason, "lied", b.Lied)
	r.Bad = append(r.Bad, b)
	if c.cfg.OnDrop != nil {
		c.cfg.OnDrop(b)
	}
}

// noDonor says that nobody is left, and who was dropped why.
func (r *Report) noDonor(what string) error {
	var why []string
	for _, b := range r.Bad {
		why = append(why, fmt.Sprintf("%s %s", b.Peer.Short(), b.Reason))
	}
	if why == nil {
		why = []string{"no peer that answers holds it"}
	}
	return fmt.Errorf("%w: %s (%s)", ErrNoDonor, what, strings.Join(why, "; "))
}

// String is for logs: bytes and donors.
func (r Report) String() string {
	parts := []string{fmt.Sprintf("%d bytes in %v", r.Bytes, r.Elapsed.Round(time.Millisecond))}
	for _, p := range slices.Sorted(maps.Keys(r.Sources)) {
		parts = append(parts, fmt.Sprintf("%d from %s", r.Sources[p], p.Short()))
	}
	return strings.Join(parts, ", ")
}
