package limits

import (
	"errors"
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

// ReadBody reads the n bytes of a message into memory that doubles as they come, on a budget, which
// lends for what has come and not for what was announced. The caller gives back when it is done
// with the message.
func ReadBody(r io.Reader, n int, on *Budget) (b []byte, giveBack func(), err error) {
	giveBack = func() {}
	b = make([]byte, 0, min(n, 4<<10))
	for len(b) < n {
		if len(b) == cap(b) {
			more := min(len(b), n-len(b))
			giveBack()
			if giveBack, err = on.Lend(len(b) + more); err != nil {
				return nil, nil, err
			}
			b = slices.Grow(b, more)
		}
		k, err := io.ReadFull(r, b[len(b):min(cap(b), n)])
		if b = b[:len(b)+k]; err != nil {
			giveBack()
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, nil, err
		}
	}
	return b, giveBack, nil
}

// ReadMessage reads what wire.WriteMessage wrote, on the budget. The caller gives back when it is
// done with the message.
func ReadMessage(r io.Reader, limit int, on *Budget) (b []byte, giveBack func(), err error) {
	n, err := wire.ReadLength(r, limit)
	if err != nil {
		return nil, nil, err
	}
	return ReadBody(r, n, on)
}

// MinRate is the least bound on a rate, in bytes a second: with less a peer looks dead to the
// others.
const MinRate = 16_000

// MaxRunName is how long the name of a run may be, in bytes.
const MaxRunName = 256
