// Package wire has what all packages share that put bytes on a stream or into a signature: a
// canonical big-endian encoding with a strict bounded reader, length-delimited messages, the
// interface of a stream, and BLAKE3 as a tree (hashtree.go), with proofs of parts.
//
// Canonical means that each value has one encoding. Integers have fixed width and are big-endian.
// Variable parts carry their length in front. A Reader refuses trailing bytes. Memory is allocated
// only after its length has been checked against a cap.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrMalformed is wrapped by every error that says bytes could not be parsed.
var ErrMalformed = errors.New("malformed bytes")

// ErrTooLarge is wrapped when a length exceeds its cap.
var ErrTooLarge = errors.New("larger than allowed")

// Stream is one ordered, reliable, authenticated byte stream to one peer. The streams of libp2p
// implement it, and so do the streams in memory of the tests. Reset aborts both directions. Close
// closes the write side; the read side ends by Reset or EOF.
type Stream interface {
	io.Reader
	io.Writer
	CloseWrite() error
	Close() error
	Reset() error
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// End ends a stream after its last answer: with Close if err is nil, so that its connection carries
// the next stream, and with Reset otherwise, because unwanted bytes may be on the way.
func End(s Stream, err error) {
	if err == nil {
		_ = s.Close()
	} else {
		_ = s.Reset()
	}
}

// TimedOut tells whether an error means that a deadline has passed. Transports have their own
// errors for that.
func TimedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// AppendU8 appends one byte.
func AppendU8(b []byte, v uint8) []byte { return append(b, v) }

// AppendBool appends 1 or 0.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendU16 appends v big-endian.
func AppendU16(b []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(b, v) }

// AppendU32 appends v big-endian.
func AppendU32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendU64 appends v big-endian.
func AppendU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendBytes appends a 32-bit length and v.
func AppendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(AppendU32(b, uint32(len(v))), v...)
}

// AppendShort appends a 16-bit length and v.
func AppendShort(b, v []byte) []byte { return append(AppendU16(b, uint16(len(v))), v...) }

// Reader parses canonical bytes. The first fault sticks, and every later read returns zero values.
// So a parser reads all its fields and calls Done once.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads from b, which it does not copy.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err is the first fault so far.
func (r *Reader) Err() error { return r.err }

// Len is the number of bytes that have not been read.
func (r *Reader) Len() int { return len(r.b) }

// Fail records a fault that the caller has found, such as a value out of range.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// Done returns the first fault. Bytes that are left over are a fault.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) != 0 {
		r.Fail("%d bytes too many", len(r.b))
	}
	return r.err
}

// Take returns the next n bytes, not copied.
func (r *Reader) Take(n int) []byte {
	if r.err == nil && (n < 0 || len(r.b) < n) {
		r.Fail("%d bytes wanted, %d left", n, len(r.b))
	}
	if r.err != nil {
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// U8 reads one byte.
func (r *Reader) U8() uint8 {
	if v := r.Take(1); v != nil {
		return v[0]
	}
	return 0
}

// Bool reads a byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	v := r.U8()
	if v > 1 {
		r.Fail("%d is not a truth value", v)
	}
	return v == 1
}

// U16 reads a big-endian integer.
func (r *Reader) U16() uint16 {
	if v := r.Take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

// U32 reads a big-endian integer.
func (r *Reader) U32() uint32 {
	if v := r.Take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// U64 reads a big-endian integer.
func (r *Reader) U64() uint64 {
	if v := r.Take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// Count reads a 32-bit count of items of at least itemSize bytes each. It refuses more than limit,
// and more than the bytes that are left could hold, so a caller may allocate as many items.
func (r *Reader) Count(limit, itemSize int) int {
	n := r.U32()
	if r.err == nil && (uint64(n) > uint64(limit) || uint64(n)*uint64(itemSize) > uint64(len(r.b))) {
		r.Fail("count %d (at most %d allowed, %d bytes left)", n, limit, len(r.b))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// Bytes reads a 32-bit length, at most limit, and that many bytes, not copied.
func (r *Reader) Bytes(limit int) []byte {
	n := r.U32()
	if r.err == nil && uint64(n) > uint64(limit) {
		r.Fail("%d bytes where at most %d are allowed", n, limit)
	}
	if r.err != nil {
		return nil
	}
	return r.Take(int(n))
}

// Short reads a 16-bit length, at most limit, and a copy of that many bytes; nil for none.
func (r *Reader) Short(limit int) []byte {
	n := int(r.U16())
	if n > limit {
		r.Fail("%d bytes where at most %d are allowed", n, limit)
	}
	return append([]byte(nil), r.Take(n)...)
}

// WriteMessage writes a 32-bit big-endian length and m in one Write.
func WriteMessage(w io.Writer, m []byte) error {
	b := make([]byte, 0, 4+len(m))
	_, err := w.Write(AppendBytes(b, m))
	return err
}

// BeginMessage begins a message in room. Its bytes are appended until SendMessage writes it: unlike
// WriteMessage that copies none of them.
func BeginMessage(room []byte) []byte { return append(room[:0], 0, 0, 0, 0) }

// SendMessage writes what BeginMessage began as WriteMessage does.
func SendMessage(w io.Writer, m []byte) error {
	binary.BigEndian.PutUint32(m, uint32(len(m)-4))
	_, err := w.Write(m)
	return err
}

// ReadLength reads the length in front of a message, refusing more than limit. It returns io.EOF
// only between messages.
func ReadLength(r io.Reader, limit int) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return 0, fmt.Errorf("message of %d bytes: %w (%d)", n, ErrTooLarge, limit)
	}
	return int(n), nil
}

// ReadMessage reads what WriteMessage wrote. It refuses messages above limit bytes before it
// allocates memory. It returns io.EOF only between messages.
func ReadMessage(r io.Reader, limit int) ([]byte, error) {
	n, err := ReadLength(r, limit)
	if err != nil {
		return nil, err
	}
	m := make([]byte, n)
	if _, err := io.ReadFull(r, m); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return m, nil
}
