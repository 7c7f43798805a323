package hostile

import (
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	ledger "github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// failingWays is how many ways fail has, in turns of a slot each.
const failingWays = 2

// fail offers, and then takes no part in the reduction: in one slot nothing comes on its streams,
// in the next one they break. In neither it has bytes for anybody, as a contributor or as an owner.
func fail(l *liar) habit {
	return habit{exchanges: func(_ bool, s wire.Stream) wire.Stream {
		now := l.driver.View().Tip.Slot + 1
		if now%failingWays == 0 {
			l.did("slot %d: the reduction gets nothing of it", now)
			return silent{s}
		}
		l.did("slot %d: its streams of the reduction break", now)
		return &broken{Stream: s}
	}}
}

// brokenAfter is how many bytes are written on a broken stream: those that say who writes.
const brokenAfter = 256

var errBroken = errors.New("the stream is broken")

// broken is a stream that is reset after the first bytes.
type broken struct {
	wire.Stream
	written int
}

func (b *broken) Write(p []byte) (int, error) {
	n, err := b.Stream.Write(p[:min(len(p), brokenAfter-b.written)])
	if b.written += n; err == nil && n < len(p) {
		err = errors.Join(errBroken, b.Reset())
	}
	return n, err
}

// voterWays is how many ways failForOthers has: those of fail, and one more.
const voterWays = failingWays + 1

// failForOthers fails where another one leads, as fail does. In each third slot it reports itself
// lost instead, once an owner has used what it has contributed. What it leads itself it works for:
// so it keeps its vote, and counts now and then.
func failForOthers(l *liar) habit {
	breaks := fail(l).exchanges
	return habit{
		hears: func(m ledger.Message) bool {
			v := l.driver.View()
			now := v.Tip.Slot + 1
			if s, ok := m.Body.(ledger.Segment); ok && !l.leads(v) && now%voterWays == 0 {
				l.did("slot %d: it reports itself lost", now)
				l.say(ledger.Lost{Ref: s.Ref, Group: s.Group, Peer: l.self, Reason: ledger.LostConnection}, v.Leader)
			}
			return true
		},
		exchanges: func(opened bool, s wire.Stream) wire.Stream {
			v := l.driver.View()
			if l.leads(v) || (v.Tip.Slot+1)%voterWays == 0 {
				return s
			}
			return breaks(opened, s)
		},
	}
}
