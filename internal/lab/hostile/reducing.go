package hostile

import (
	"crypto/rand"
	"errors"
	"io"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// owns makes a kind that signs a multiple of the outcome of the contributions: in the first frame
// that it reduces in a slot, or in all.
func owns(by float32, all bool) func(*liar) {
	return func(l *liar) {
		spoilt, which := uint64(0), 0
		l.Reduced = func(slotNumber uint64, frame int, x []float32) {
			l.attacking(func() {
				if spoilt != slotNumber {
					spoilt, which = slotNumber, frame
				}
				if all || frame == which {
					scale(x, by)
					l.did("slot %d: another outcome", slotNumber)
				}
			})
		}
	}
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// streams replaces the streams of a protocol for which another one is given, and notes the deed.
func (l *liar) streams(protocol string, other func(opened bool, s wire.Stream) (its wire.Stream, deed string)) {
	l.Streams = func(p string, opened bool, s wire.Stream) wire.Stream {
		l.attacking(func() {
			if p != protocol {
				return
			}
			if its, deed := other(opened, s); its != nil {
				l.did("slot %d: %s", l.now(), deed)
				s = its
			}
		})
		return s
	}
}

// hideBytes makes a kind that gives owners what it has offered, and shows auditors nothing, or
// bytes that are as many and other ones.
func hideBytes(garbling bool) func(*liar) {
	return func(l *liar) {
		l.streams(p2p.ProtocolAudit, func(opened bool, s wire.Stream) (wire.Stream, string) {
			switch {
			case opened:
				return nil, ""
			case garbling:
				return garbled{s}, "auditors are shown something else"
			}
			return silent{s}, "auditors are shown nothing of it"
		})
	}
}

// deaf hears no answer to what it asks contributors.
func deaf(l *liar) {
	l.streams(p2p.ProtocolAudit, func(opened bool, s wire.Stream) (wire.Stream, string) {
		if opened {
			return unheard{s}, "it hears no answer"
		}
		return nil, ""
	})
}

// fail offers, and then takes no part in the reduction: in one slot nothing comes on its streams,
// in the next one they break. In neither it has bytes for anybody, as a contributor or as an owner.
// One with a vote works for what it leads itself: so it keeps its vote, and counts now and then.
func fail(l *liar) {
	l.streams(p2p.ProtocolExchange, func(_ bool, s wire.Stream) (wire.Stream, string) {
		switch {
		case l.Votes && l.leads(l.driver.View()):
			return nil, ""
		case l.now()%2 == 0:
			return silent{s}, "the reduction gets nothing of it"
		}
		return &broken{Stream: s}, "its streams of the reduction break"
	})
}

// brokenAfter is how many bytes are written on a broken stream: those that say who writes.
const brokenAfter = 256

// broken is a stream that is reset after the first bytes.
type broken struct {
	wire.Stream
	written int
}

func (b *broken) Write(p []byte) (int, error) {
	n, err := b.Stream.Write(p[:min(len(p), brokenAfter-b.written)])
	if b.written += n; err == nil && n < len(p) {
		err = errors.Join(io.ErrShortWrite, b.Reset())
	}
	return n, err
}

// silent is a stream on which nothing is answered, until the other side gives it up.
type silent struct{ wire.Stream }

func (silent) Write(b []byte) (int, error) { return len(b), nil }
func (silent) Close() error                { return nil }

// garbled is a stream with answers of the right length, and any bytes.
type garbled struct{ wire.Stream }

func (g garbled) Write(b []byte) (int, error) {
	b = slices.Clone(b)
	_, _ = rand.Read(b[min(4, len(b)):]) // it never fails
	return g.Stream.Write(b)
}

// unheard is a stream that ends at once.
type unheard struct{ wire.Stream }

func (unheard) Read([]byte) (int, error) { return 0, io.EOF }
