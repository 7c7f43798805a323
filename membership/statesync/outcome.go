package statesync

import (
	"context"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

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
// for no other. FetchOutcome returns the bytes of each segment, in order. frameBytes is the run's
// frame size.
//
// ErrNoDonor is wrapped when none of the peers gives some part of it.
func (c *Client) FetchOutcome(ctx context.Context, blobs []Blob, frameBytes int, from []slot.PeerID) ([][]byte, Report,
	error,
) {
	t := newTally(c.cfg)
	data := make([][]byte, len(blobs))
	w := &swarm{
		cfg: c.cfg, dial: c.dial, tally: t, from: func() []slot.PeerID { return from },
		lacking: map[slot.PeerID]bool{},
	}
	for i, b := range blobs {
		if b.Size == 0 && slot.FrameRoot(nil, frameBytes, 0) != b.Root {
			return nil, t.end(), fmt.Errorf("statesync: segment %s cannot be empty", b.Root.Short())
		}
		data[i] = make([]byte, b.Size)
		w.pieces = append(w.pieces, runsOfFrames(data[i], &blob{root: b.Root, size: b.Size, frameBytes: frameBytes})...)
	}
	if err := w.run(ctx, "an outcome"); err != nil {
		return nil, t.end(), err
	}
	return data, t.end(), nil
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
