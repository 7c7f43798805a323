package statesync

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// Loan is a segment in memory that is lent to other peers. Its bytes must not be changed.
type Loan struct {
	frames     slot.Frames
	frameBytes int
}

// Lend makes a loan of a segment.
func Lend(segment slot.Frames, frameBytes int) *Loan { return &Loan{segment, frameBytes} }

// Frames returns the segment. A nil loan has none.
func (l *Loan) Frames() (none slot.Frames) {
	if l == nil {
		return none
	}
	return l.frames
}

// Size is the number of bytes of the segment.
func (l *Loan) Size() int64 { return int64(len(l.frames.Bytes)) }

// Hashes returns the hashes of all frames.
func (l *Loan) Hashes() ([]slot.Root, error) { return l.frames.Hashes, nil }

// Frame appends frame k to dst.
func (l *Loan) Frame(dst []byte, k int64, _ []slot.Root) ([]byte, error) {
	first := k * int64(l.frameBytes)
	return append(dst, l.frames.Bytes[first:min(first+int64(l.frameBytes), l.Size())]...), nil
}

// Close does nothing: others may use the loan.
func (l *Loan) Close() error { return nil }
