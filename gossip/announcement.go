package gossip

import (
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// announcement is the content of a gossipsub message: kind u8, boot u64, counter u64, body (32-bit
// length in front).
type announcement struct {
	kind    uint8
	boot    uint64 // of the author, rises with each of its starts
	counter uint64 // rises with each announcement of one boot
	body    []byte
}

// overhead is the encoding's size without the body.
const overhead = 1 + 8 + 8 + 4

func (a announcement) append(b []byte) []byte {
	b = wire.AppendU8(b, a.kind)
	b = wire.AppendU64(b, a.boot)
	b = wire.AppendU64(b, a.counter)
	return wire.AppendBytes(b, a.body)
}

// parse reads what append wrote. The body is not copied.
func parse(b []byte, maxBody int) (announcement, error) {
	r := wire.NewReader(b)
	a := announcement{kind: r.U8(), boot: r.U64(), counter: r.U64(), body: r.Bytes(maxBody)}
	return a, r.Done()
}
