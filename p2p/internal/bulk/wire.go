package bulk

import (
	"encoding/binary"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// alpn names the protocol that a bulk connection speaks inside TLS.
const alpn = "p2pdiloco/bulk/1"

// kind is what a message of a bulk connection says. Each begins with a kind (one byte) and the
// length of what follows (three bytes, big-endian).
type kind uint8

const (
	kindOpen  kind = iota + 1 // from the dialer: a stream begins; its protocol's name follows
	kindData                  // bytes of the stream
	kindEnd                   // no more bytes this way
	kindReady                 // from the acceptor, once: the connection is taken
)

const (
	headerSize      = 4
	maxData         = 1<<24 - 1
	maxProtocolName = 128
)

type header struct {
	kind   kind
	length int // of what follows
}

func (h header) append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.kind)<<24|uint32(h.length))
}

// parseHeader takes exactly headerSize bytes.
func parseHeader(b []byte) (header, error) {
	v := binary.BigEndian.Uint32(b)
	h := header{kind(v >> 24), int(v & maxData)}
	switch {
	case h.kind == kindData && h.length > 0:
	case h.kind == kindOpen && h.length > 0 && h.length <= maxProtocolName:
	case (h.kind == kindEnd || h.kind == kindReady) && h.length == 0:
	default:
		return header{}, fmt.Errorf("%w: message of kind %d with %d bytes on a bulk connection", wire.ErrMalformed,
			h.kind, h.length)
	}
	return h, nil
}
