package p2p

import (
	"encoding/binary"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// bulkALPN names the protocol that a bulk connection speaks inside TLS.
const bulkALPN = "p2pdiloco/bulk/1"

// bulkKind is what a message of a bulk connection says. Each begins with a kind (one byte) and the length of what follows (three bytes,
// big-endian).
type bulkKind uint8

const (
	bulkOpen  bulkKind = iota + 1 // from the dialer: a stream begins; its protocol's name follows
	bulkData                      // bytes of the stream
	bulkEnd                       // no more bytes this way
	bulkReady                     // from the acceptor, once: the connection is taken
)

const (
	bulkHeaderSize  = 4
	maxBulkData     = 1<<24 - 1
	maxProtocolName = 128
)

type bulkHeader struct {
	kind   bulkKind
	length int // of what follows
}

func (h bulkHeader) append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.kind)<<24|uint32(h.length))
}

// parseBulkHeader takes exactly bulkHeaderSize bytes.
func parseBulkHeader(b []byte) (bulkHeader, error) {
	v := binary.BigEndian.Uint32(b)
	h := bulkHeader{bulkKind(v >> 24), int(v & maxBulkData)}
	switch {
	case h.kind == bulkData && h.length > 0:
	case h.kind == bulkOpen && h.length > 0 && h.length <= maxProtocolName:
	case (h.kind == bulkEnd || h.kind == bulkReady) && h.length == 0:
	default:
		return bulkHeader{}, fmt.Errorf("%w: message of kind %d with %d bytes on a bulk connection", wire.ErrMalformed, h.kind, h.length)
	}
	return h, nil
}
