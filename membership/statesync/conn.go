package statesync

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// lieError means that the bytes of a donor are not what it was asked for. The donor is not asked
// again.
type lieError struct{ err error }

func (e *lieError) Error() string { return "sent wrong bytes: " + e.err.Error() }
func (e *lieError) Unwrap() error { return e.err }

// lie marks the errors that can only be the donor's fault.
func lie(err error) error {
	if errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrTooLarge) {
		return &lieError{err}
	}
	return err
}

// conn is one stream to a donor, used by one goroutine.
type conn struct {
	s       wire.Stream
	zip     *zip
	timeout time.Duration
	raw     []byte // the last block
}

// dialer opens streams to donors.
type dialer struct {
	open    Opener
	zip     *zip
	timeout time.Duration
}

// dial opens a stream, which outlives ctx.
func (d dialer) dial(ctx context.Context, p slot.PeerID) (*conn, error) {
	octx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	s, err := d.open.Open(octx, p)
	if err != nil {
		return nil, err
	}
	return &conn{s: s, zip: d.zip, timeout: d.timeout}, nil
}

// during has the stream reset when ctx ends before the function returned is called: while an answer
// is awaited. Between two answers the stream is closed, and its connection carries the next one.
func (n *conn) during(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = n.s.Reset() })
}

// list asks one peer which checkpoints it holds.
func (d dialer) list(ctx context.Context, p slot.PeerID) ([]checkpoint.Checkpoint, error) {
	n, err := d.dial(ctx, p)
	if err != nil {
		return nil, err
	}
	stop := n.during(ctx)
	list, err := n.list()
	stop()
	n.close(err)
	return list, err
}

// close ends the stream after an answer, or the fault of one. Where the answer is not complete it
// resets the stream, because unwanted bytes may be on the way.
func (n *conn) close(fault error) {
	if isRefusal(fault) {
		fault = nil
	}
	wire.End(n.s, fault)
}

// ask sends a request.
func (n *conn) ask(q request) error {
	if err := n.s.SetDeadline(time.Now().Add(n.timeout)); err != nil {
		return err
	}
	_, err := n.s.Write(q.append(make([]byte, 0, requestSize)))
	return err
}

// slowReader reads from a stream that may be slow. Something has to arrive within each timeout, and
// everything within maxTimeouts of them.
type slowReader struct {
	s       wire.Stream
	timeout time.Duration
	end     time.Time
}

const maxTimeouts = 10

// Read implements io.Reader.
func (p slowReader) Read(b []byte) (int, error) {
	at := time.Now().Add(p.timeout)
	if at.After(p.end) {
		at = p.end
	}
	if err := p.s.SetDeadline(at); err != nil {
		return 0, err
	}
	return p.s.Read(b)
}

// block reads a block into dst, or into the connection's own memory if dst is nil.
func (n *conn) block(dst []byte, least, most int) ([]byte, int, error) {
	from := slowReader{n.s, n.timeout, time.Now().Add(maxTimeouts * n.timeout)}
	if dst != nil {
		b, sent, err := n.zip.readBlock(from, dst, least, most)
		return b, sent, lie(err)
	}
	b, sent, err := n.zip.readBlock(from, n.raw, least, most)
	if err != nil {
		return nil, 0, lie(err)
	}
	n.raw = b
	return b, sent, nil
}

// list asks which checkpoints the donor holds.
func (n *conn) list() ([]checkpoint.Checkpoint, error) {
	if err := n.ask(request{Type: askList}); err != nil {
		return nil, err
	}
	b, _, err := n.block(nil, 4, 4+maxListed*listEntry)
	if err != nil {
		return nil, err
	}
	list, err := parseList(b)
	return list, lie(err)
}

// chunk fetches and verifies a range of a state of size bytes. It returns the number of bytes on
// the wire.
func (n *conn) chunk(dst []byte, root slot.Root, size, offset int64) (int, error) {
	if err := n.ask(request{askChunk, root, uint64(offset), uint64(len(dst))}); err != nil {
		return 0, err
	}
	exact := int(checkpoint.SliceSize(size, offset, int64(len(dst))))
	b, sent, err := n.block(nil, exact, exact)
	if err != nil {
		return 0, err
	}
	if err := checkpoint.VerifySlice(dst, b, root, size, offset); err != nil {
		return 0, &lieError{err}
	}
	return sent, nil
}

// blob is a segment that is being fetched.
type blob struct {
	root       slot.Root
	size       int64
	frameBytes int
	// the verified hashes of its frames; nil until a donor has sent them
	hashes atomic.Pointer[[]slot.Root]
}

// frames fetches and verifies count frames of a blob from frame first on, and leaves them in dst.
// It returns the number of bytes on the wire.
func (n *conn) frames(dst []byte, blob *blob, first, count int64) (total int, err error) {
	known := blob.hashes.Load()
	q := request{askFramesOnly, blob.root, uint64(first), uint64(count)}
	if known == nil {
		q.Type = askFrames
	}
	if err := n.ask(q); err != nil {
		return 0, err
	}
	if known == nil {
		if known, total, err = n.hashes(blob); err != nil {
			return 0, err
		}
	}
	hashes, frameBytes := *known, blob.frameBytes
	for k := first; k < first+count; k++ {
		size := min(frameBytes, len(dst))
		f, sent, err := n.block(dst[:size:size], size, size)
		if err != nil {
			return 0, err
		}
		if slot.Hash(f) != hashes[k] {
			return 0, &lieError{fmt.Errorf("frame %d of the segment %s", k, blob.root.Short())}
		}
		total += sent
		dst = dst[size:]
	}
	return total, nil
}

// hashes reads and verifies the frame hashes of a blob.
func (n *conn) hashes(blob *blob) (*[]slot.Root, int, error) {
	exact := hashesHead + int(frameCount(blob.size, blob.frameBytes))*len(slot.Root{})
	b, total, err := n.block(nil, exact, exact)
	if err != nil {
		return nil, 0, err
	}
	hashes, err := parseHashes(b, blob.size, blob.frameBytes, blob.root)
	if err != nil {
		return nil, 0, &lieError{err}
	}
	blob.hashes.Store(&hashes)
	return &hashes, total, nil
}
