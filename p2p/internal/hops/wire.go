package hops

import (
	"fmt"
	"io"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// leg is what a stream of Protocol is for.
type leg uint8

const (
	legForward leg = 1 // to the forwarder, which is asked to carry it to a target
	legArrive  leg = 2 // to the target, from the forwarder, on behalf of an origin
)

// Bounds on a header, and on the peer ID in it.
const (
	maxPeer   = 64
	maxHeader = 1 + 4 + maxPeer

	maxProtocol = 64 // bytes of a protocol's name
)

// header begins a stream of Protocol.
type header struct {
	leg  leg
	peer peer.ID // the target of leg 1, the origin of leg 2
}

func (h header) append(b []byte) []byte {
	return wire.AppendBytes(wire.AppendU8(b, uint8(h.leg)), string(h.peer))
}

func parseHeader(b []byte) (h header, err error) {
	r := wire.NewReader(b)
	h.leg = leg(r.U8())
	id := r.Bytes(maxPeer)
	if h.leg != legForward && h.leg != legArrive {
		r.Fail("leg %d of a forwarded stream", h.leg)
	}
	if err := r.Done(); err != nil {
		return header{}, err
	}
	if h.peer, err = peer.IDFromBytes(id); err != nil {
		return header{}, fmt.Errorf("%w: the peer that a forwarded stream names: %w", wire.ErrMalformed, err)
	}
	return h, nil
}

func readHeader(r io.Reader) (header, error) {
	b, err := wire.ReadMessage(r, maxHeader)
	if err != nil {
		return header{}, err
	}
	return parseHeader(b)
}

func writeHeader(w io.Writer, h header) error { return wire.WriteMessage(w, h.append(nil)) }
