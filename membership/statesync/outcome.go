package statesync

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Blob is one encoded segment: its root, and its size in bytes, which follows from its range and the run's codec.
type Blob struct {
	Root slot.Root
	Size int64
}

// blob is a Blob that is being fetched.
type blob struct {
	Blob
	frameBytes int
	hashes     atomic.Pointer[[]slot.Root] // of its frames, once a donor has sent them; verified
}

// outcomePiece bounds the bytes of one request for frames, and with it what a fault costs.
const outcomePiece = 4 << 20

// FetchOutcome fetches the segments of an outcome from the peers that may hold it, spread over all of them, each segment
// verified against its root. A peer that lacks a segment is asked for no other: outcomes are held whole. It returns the bytes
// of each, in order. frameBytes is the run's frame size.
//
// ErrNoDonor is wrapped when a part of it can be had from none of the peers.
func (c *Client) FetchOutcome(ctx context.Context, blobs []Blob, frameBytes int, from []slot.PeerID) ([][]byte, Report, error) {
	began := time.Now()
	report := Report{Sources: map[slot.PeerID]int64{}}
	data := make([][]byte, len(blobs))
	w := &swarm{c: c, report: &report, from: func() []slot.PeerID { return from }, gone: map[slot.PeerID]bool{}}
	for i, b := range blobs {
		if b.Size == 0 && slot.FrameRoot(nil, frameBytes, 0) != b.Root {
			return nil, report, fmt.Errorf("statesync: segment %s cannot be empty", b.Root.Short())
		}
		data[i] = make([]byte, b.Size)
		w.pieces = append(w.pieces, framePieces(data[i], &blob{Blob: b, frameBytes: frameBytes})...)
	}
	err := w.run(ctx, "an outcome")
	report.Elapsed = time.Since(began)
	if err != nil {
		return nil, report, err
	}
	return data, report, nil
}

// framePieces cuts a segment into runs of frames.
func framePieces(data []byte, b *blob) (pieces []*piece) {
	frameBytes := b.frameBytes
	run := min(max(1, outcomePiece/int64(frameBytes)), maxFrameCount)
	frames := frameCount(b.Size, frameBytes)
	for first := int64(0); first < frames; first += run {
		count := min(run, frames-first)
		offset := first * int64(frameBytes)
		part := data[offset:min(b.Size, offset+count*int64(frameBytes))]
		pieces = append(pieces, &piece{
			size:  int64(len(part)),
			fetch: func(c *conn, dst []byte) (int, error) { return c.frames(dst, b, first, count) },
			store: func(got []byte) error { copy(part, got); return nil },
		})
	}
	return pieces
}
