package statesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

const (
	maxDonors  = 8                // peers that are fetched from at once
	pollTime   = time.Second      // between two looks at the list of peers
	surveyTime = 2 * time.Second  // for the others to answer once one holds a wanted state
	patience   = 10 * time.Second // for which FetchState waits while it has no donor at all
	// A piece that one donor holds for so long goes to another one, too, if workers are idle.
	slowPiece = 3 * time.Second
	// A donor that holds a piece for so long gives its place to one that waits for a place.
	slowDonor = 3 * slowPiece
	maxTrials = 2 // donors at once that have the place of a slow one, and have given nothing yet
)

// Config bounds a client. The zero value means the defaults.
type Config struct {
	// Timeout bounds the opening of a stream, and the time until something more of a chunk or frame
	// arrives. All of a chunk or frame may take 10 times as long. Default: 30 s.
	Timeout time.Duration
	// Streams is how many streams each donor gets. Each has one piece in flight. Default: 2.
	Streams int
	// Rand returns random numbers: the order in which peers are asked. Default: rand.Uint64.
	Rand   func() uint64
	Logger *slog.Logger // nil: silent
	// OnDrop, if set, is called for every donor that is dropped. It must not block.
	OnDrop func(Bad)
}

func (c Config) withDefaults() Config {
	c.Timeout = orDefault(c.Timeout, 30*time.Second)
	c.Streams = orDefault(c.Streams, 2)
	if c.Rand == nil {
		c.Rand = rand.Uint64
	}
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

// Client fetches states and outcomes. Its methods may be called from any goroutine. Each of them
// waits for the goroutines that it started.
type Client struct {
	cfg  Config
	dial dialer
}

// NewClient makes a client. It holds nothing that needs closing.
func NewClient(open Opener, cfg Config) *Client {
	cfg = cfg.withDefaults()
	return &Client{cfg: cfg, dial: dialer{open: open, zip: newZip(), timeout: cfg.Timeout}}
}

// Blob is one encoded segment: its root, and its size in bytes, which follows from its range and
// the run's codec.
type Blob struct {
	Root slot.Root
	Size int64
}

// outcomePiece bounds the bytes of one request for frames, and with it the cost of a fault.
const outcomePiece = 4 << 20

// FetchOutcome fetches the segments of an outcome from all the peers that may hold it, and verifies
// each segment against its root. Peers hold an outcome whole, so one that lacks a segment is asked
// for no other. FetchOutcome returns the segments in order. frameBytes is the run's frame size.
//
// ErrNoDonor is wrapped when none of the peers gives some part of it.
func (c *Client) FetchOutcome(ctx context.Context, blobs []Blob, frameBytes int, from []slot.PeerID) ([]slot.Frames,
	Report, error,
) {
	f := c.begin(func() []slot.PeerID { return from })
	got, fetched := make([]slot.Frames, len(blobs)), make([]*blob, len(blobs))
	w := &swarm{transfer: f, lacking: map[slot.PeerID]bool{}, rested: map[slot.PeerID]bool{}}
	for i, b := range blobs {
		if b.Size == 0 && slot.FrameRoot(nil, frameBytes, 0) != b.Root {
			return nil, f.end(), fmt.Errorf("statesync: segment %s cannot be empty", b.Root.Short())
		}
		got[i].Bytes = make([]byte, b.Size)
		fetched[i] = &blob{root: b.Root, size: b.Size, frameBytes: frameBytes}
		w.pieces = append(w.pieces, runsOfFrames(got[i].Bytes, fetched[i])...)
	}
	if err := w.run(ctx, "an outcome"); err != nil {
		return nil, f.end(), err
	}
	for i, b := range fetched {
		if b.size > 0 {
			got[i].Hashes = *b.hashes.Load()
		}
	}
	return got, f.end(), nil
}

// runsOfFrames cuts a segment into pieces of several frames.
func runsOfFrames(data []byte, b *blob) (pieces []*piece) {
	frameBytes := b.frameBytes
	run := min(max(1, outcomePiece/int64(frameBytes)), maxFrameCount)
	frames := frameCount(b.size, frameBytes)
	for first := int64(0); first < frames; first += run {
		count := min(run, frames-first)
		offset := first * int64(frameBytes)
		part := data[offset:min(b.size, offset+count*int64(frameBytes))]
		pieces = append(pieces, &piece{
			size:  int64(len(part)),
			fetch: func(c *conn, dst []byte) (int, error) { return c.frames(dst, b, first, count) },
			store: func(got []byte) error { copy(part, got); return nil },
		})
	}
	return pieces
}
