package limits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A stranger that connects may begin a message, say that it is long, and never finish it. So memory
// grows with the bytes that have come, and what all unfinished messages of one kind take beyond
// their first smallMessage bytes is bounded together.
const smallMessage = 64 << 10

var errBusy = errors.New("too many large messages are on their way")

// Budget is bytes that are lent.
type Budget struct{ left atomic.Int64 }

// NewBudget lends so many bytes.
func NewBudget(size int64) *Budget {
	b := &Budget{}
	b.left.Store(size)
	return b
}

// Lend gives leave for a message of n bytes; the returned function gives it back.
func (b *Budget) Lend(n int) (giveBack func(), err error) {
	n = max(0, n-smallMessage)
	if b.left.Add(-int64(n)) < 0 {
		b.left.Add(int64(n))
		return nil, errBusy
	}
	return func() { b.left.Add(int64(n)) }, nil
}

// ReadLength reads the length in front of a message, refusing more than limit.
func ReadLength(r io.Reader, limit int) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return 0, fmt.Errorf("message of %d bytes: %w (%d)", n, wire.ErrTooLarge, limit)
	}
	return int(n), nil
}

// ReadBody reads the n bytes of a message into memory that doubles as they come.
func ReadBody(r io.Reader, n int) ([]byte, error) {
	return readGrowing(r, n, func(int) error { return nil })
}

// ReadBodyOn is ReadBody on a budget, which lends for what has come and not for what was announced.
// The caller gives back when it is done with the message.
func ReadBodyOn(r io.Reader, n int, on *Budget) (b []byte, giveBack func(), err error) {
	giveBack = func() {}
	b, err = readGrowing(r, n, func(size int) error {
		giveBack()
		giveBack = func() {}
		more, err := on.Lend(size)
		if err == nil {
			giveBack = more
		}
		return err
	})
	if err != nil {
		giveBack()
		return nil, nil, err
	}
	return b, giveBack, nil
}

// readGrowing is ReadBody that asks for room before it takes memory for so many bytes.
func readGrowing(r io.Reader, n int, room func(size int) error) ([]byte, error) {
	b := make([]byte, 0, min(n, 4<<10))
	for len(b) < n {
		if len(b) == cap(b) {
			more := min(len(b), n-len(b))
			if err := room(len(b) + more); err != nil {
				return nil, err
			}
			b = slices.Grow(b, more)
		}
		k, err := io.ReadFull(r, b[len(b):min(cap(b), n)])
		b = b[:len(b)+k]
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// ReadMessage reads what wire.WriteMessage wrote, on the budget. The caller gives back when it is
// done with the message.
func ReadMessage(r io.Reader, limit int, on *Budget) (b []byte, giveBack func(), err error) {
	n, err := ReadLength(r, limit)
	if err != nil {
		return nil, nil, err
	}
	return ReadBodyOn(r, n, on)
}

// MinRate is the least bound on a rate, in bytes a second: with less a peer looks dead to the
// others.
const MinRate = 16_000

// MaxRunName is how long the name of a run may be, in bytes.
const MaxRunName = 256
