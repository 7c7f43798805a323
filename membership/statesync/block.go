package statesync

import (
	"errors"
	"fmt"
	"io"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Answers of a donor that carry no bytes.
var (
	errNotHeld = errors.New("does not hold it")
	errBusy    = errors.New("is busy")
	errSpent   = errors.New("has given this peer, or its address, all that a newcomer gets from it in an hour")
)

// readBlock reads one block of least to most decoded bytes. It returns the decoded bytes, in dst's
// memory where they fit, and the number of bytes on the wire.
func (z *zip) readBlock(r io.Reader, dst []byte, least, most int) ([]byte, int, error) {
	var hb [blockHead]byte
	if _, err := io.ReadFull(r, hb[:]); err != nil {
		return nil, 0, err
	}
	h, err := parseHead(hb[:])
	switch {
	case err != nil:
		return nil, 0, err
	case h.Status == statusNotHeld:
		return nil, 0, errNotHeld
	case h.Status == statusBusy:
		return nil, 0, errBusy
	case h.Status == statusSpent:
		return nil, 0, errSpent
	case uint64(h.Size) < uint64(least) || uint64(h.Size) > uint64(most):
		return nil, 0, fmt.Errorf("block of %d bytes: %w (%d to %d)", h.Size, wire.ErrTooLarge, least, most)
	}
	if cap(dst) < int(h.Size) {
		dst = make([]byte, h.Size)
	}
	dst = dst[:h.Size]
	n := blockHead + int(h.Sent)
	if h.Encoding == plain {
		_, err := io.ReadFull(r, dst)
		return dst, n, err
	}
	sent, done := z.borrow(int(h.Sent))
	defer done()
	if _, err := io.ReadFull(r, sent); err != nil {
		return nil, 0, err
	}
	return dst, n, z.decode(dst, sent, h.Encoding)
}

// appendBlock appends a block with these bytes, in the encoding that pays.
func (z *zip) appendBlock(dst, b []byte) []byte {
	start := len(dst)
	if e := z.choose(b); e != plain {
		dst = append(dst, make([]byte, blockHead)...)
		dst = z.encode(dst, b, e)
		if sent := len(dst) - start - blockHead; float64(sent) <= worthwhile*float64(len(b)) {
			head{statusOK, e, uint32(len(b)), uint32(sent)}.append(dst[:start])
			return dst
		}
	}
	dst = head{statusOK, plain, uint32(len(b)), uint32(len(b))}.append(dst[:start])
	return append(dst, b...)
}
