package statesync

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Loan is a segment in memory that is lent to other peers. Its bytes must not be changed.
type Loan struct {
	bytes      []byte
	frameBytes int
	hashes     func() []slot.Root // made once: one request of a few bytes needs all of them
}

// Lend makes a loan of a segment.
func Lend(segment []byte, frameBytes int) *Loan {
	return &Loan{
		bytes: segment, frameBytes: frameBytes,
		hashes: sync.OnceValue(func() []slot.Root { return slot.FrameHashes(segment, frameBytes) }),
	}
}

// Bytes returns the segment. A nil loan has none.
func (l *Loan) Bytes() []byte {
	if l == nil {
		return nil
	}
	return l.bytes
}

// Size is the number of bytes of the segment.
func (l *Loan) Size() int64 { return int64(len(l.bytes)) }

// Hashes returns the hashes of all frames.
func (l *Loan) Hashes() ([]slot.Root, error) { return l.hashes(), nil }

// Frame appends frame k to dst.
func (l *Loan) Frame(dst []byte, k int64, _ []slot.Root) ([]byte, error) {
	first := k * int64(l.frameBytes)
	return append(dst, l.bytes[first:min(first+int64(l.frameBytes), l.Size())]...), nil
}

// Close does nothing: others may use the loan.
func (l *Loan) Close() error { return nil }
