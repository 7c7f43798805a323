package statesync

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Opener opens a stream to a peer's Server.
type Opener interface {
	Open(ctx context.Context, peer slot.PeerID) (wire.Stream, error)
}

// ErrNoDonor is wrapped when no peer gives, or no longer gives, what is wanted.
var ErrNoDonor = errors.New("statesync: nobody gives what is wanted")

// Config bounds a client. The zero value means the defaults.
type Config struct {
	// Timeout bounds the opening of a stream, and the time until something more of a chunk or frame
	// arrives. All of a chunk or frame may take 10 times as long. Default: 30 s.
	Timeout time.Duration
	// Survey is how long other peers have to answer once one peer is known to hold a wanted state.
	// Default: 2 s.
	Survey time.Duration
	// Poll is how often the list of peers is asked for again. Default: 1 s.
	Poll time.Duration
	// Patience is how long FetchState waits while it has no donor at all. Default: 10 s.
	Patience time.Duration
	// Slow is how long one donor may hold a piece while other workers are idle. After that a second
	// donor fetches the piece too. Default: 3 s.
	Slow time.Duration
	// Donors is how many peers are fetched from at once. Default: 8.
	Donors int
	// Streams is how many streams each donor gets. Each has one piece in flight. Default: 2.
	Streams int
	Logger  *slog.Logger // nil: silent
	// OnDrop, if set, is called for every donor that is dropped. It must not block.
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

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}
