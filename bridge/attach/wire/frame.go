package wire

import (
	"errors"
	"fmt"
	"io"
	"reflect"
)

// Bounds.
const (
	HeaderSize = 16
	MaxBody    = 64 << 20 // bytes
	MaxText    = 1 << 20  // bytes of one text
	MaxRanks   = 1024     // 64 bytes each in the page of words
)

// ErrMalformed is wrapped by every error of a parser.
var ErrMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Append appends a message with its header. What a node or rank of this release makes is never
// larger than MaxBody, but a LAYOUT may be: Parse of the other side refuses it.
func Append(b []byte, id uint64, m Message) []byte {
	at := len(b)
	b = append(b, make([]byte, HeaderSize)...)
	for _, f := range fields(m) {
		b = f.append(b)
	}
	le.PutUint32(b[at:], uint32(len(b)-at-HeaderSize))
	le.PutUint16(b[at+4:], uint16(TypeOf(m)))
	le.PutUint64(b[at+8:], id)
	return b
}

// Header is what stands in front of a body.
type Header struct {
	Size int // bytes of the body
	Type Type
	ID   uint64
}

// ParseHeader reads a header.
func ParseHeader(b [HeaderSize]byte) (Header, error) {
	h := Header{Size: int(le.Uint32(b[:])), Type: Type(le.Uint16(b[4:])), ID: le.Uint64(b[8:])}
	if h.Size > MaxBody {
		return h, malformed("%v of %d bytes: at most %d are allowed", h.Type, h.Size, MaxBody)
	}
	if flags := le.Uint16(b[6:]); flags != 0 {
		return h, malformed("%v with flags %#x: none are allowed", h.Type, flags)
	}
	return h, nil
}

// Parse reads the body of a message. The message is nil if its type is not known.
func Parse(t Type, body []byte) (Message, error) {
	k, ok := kinds[t]
	if !ok {
		return nil, nil
	}
	m := reflect.New(reflect.TypeOf(k)).Interface()
	if err := parse(fields(m), body); err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	return m, nil
}

func parse(fields []field, b []byte) error {
	seen := make(map[uint16]bool, len(fields))
	for len(b) > 0 {
		if len(b) < 8 {
			return malformed("%d bytes after the last field", len(b))
		}
		tag, size := le.Uint16(b), le.Uint32(b[4:])
		if zero := le.Uint16(b[2:]); zero != 0 || uint64(size) > uint64(len(b)-8) {
			return malformed("field %d of %d bytes (and %#x, which must be 0), with %d bytes left", tag, size, zero,
				len(b)-8)
		}
		value := b[8 : 8+size]
		b = b[8+size:]
		if err := set(fields, tag, value, seen); err != nil {
			return fmt.Errorf("field %d: %w", tag, err)
		}
	}
	return nil
}

func set(fields []field, tag uint16, value []byte, seen map[uint16]bool) error {
	for _, f := range fields {
		if f.tag != tag {
			continue
		}
		if seen[tag] && !f.repeats() {
			return malformed("it is there twice")
		}
		seen[tag] = true
		return f.set(value)
	}
	return nil // of a later version
}

// Read reads one message. Its error is io.EOF at the end between two messages.
func Read(r io.Reader) (Header, Message, error) {
	var head [HeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Header{}, nil, err
	}
	h, err := ParseHeader(head)
	if err != nil {
		return h, nil, err
	}
	body, err := readBody(r, h.Size)
	if err != nil {
		return h, nil, err
	}
	m, err := Parse(h.Type, body)
	return h, m, err
}

// readBody makes room as the bytes come, not as they are announced.
func readBody(r io.Reader, size int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(body) < size {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}
