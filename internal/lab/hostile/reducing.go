package hostile

import (
	"crypto/rand"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// turnReduction has hooks change what this peer reduces, offers, shows and checks.
func (l *liar) turnReduction(h *testhooks.Hooks) {
	if reduces := l.habit.reduces; reduces != nil {
		h.Reduced = func(slotNumber uint64, frame int, values []float32) {
			l.mu.Lock()
			defer l.mu.Unlock()
			reduces(slotNumber, frame, values)
		}
	}
	if offers := l.habit.offers; offers != nil {
		h.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
			l.attacking(func() { offers(slotNumber, c) })
		}
	}
	if figures := l.habit.figures; figures != nil {
		h.Figured = func(slotNumber uint64, _ int, row slot.FigureRow) {
			l.attacking(func() { figures(slotNumber, row) })
		}
	}
	if claims := l.habit.claims; claims != nil {
		h.Claims = func(slotNumber, weight uint64) uint64 {
			l.attacking(func() { weight = claims(slotNumber, weight) })
			return weight
		}
	}
	if l.habit.audits != nil || l.habit.exchanges != nil {
		h.Streams = l.turnStream
	}
	if passes := l.habit.passes; passes != nil {
		h.Passes = func(slotNumber uint64) (pass bool) {
			l.attacking(func() { pass = passes(slotNumber) })
			return pass
		}
	}
}

// turnStream is given each stream that this peer has opened or accepted.
func (l *liar) turnStream(protocol string, opened bool, s wire.Stream) wire.Stream {
	turn := map[string]func(bool, wire.Stream) wire.Stream{
		p2p.ProtocolAudit: l.habit.audits, p2p.ProtocolExchange: l.habit.exchanges,
	}[protocol]
	if turn != nil {
		l.attacking(func() { s = turn(opened, s) })
	}
	return s
}

// attacking calls a function of the habit once the attack has begun.
func (l *liar) attacking(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.Load() {
		do()
	}
}

// owns makes a kind that signs other outcomes than those of the contributions. lie changes the
// values of a frame, given those that it had here last, or zeros.
func owns(lie func(x, before []float32)) func(*liar) habit {
	return func(l *liar) habit {
		kept := map[int][]float32{}
		return habit{reduces: func(slotNumber uint64, frame int, x []float32) {
			before, had := kept[frame]
			kept[frame] = slices.Clone(x)
			if !had {
				before = make([]float32, len(x))
			}
			if l.begun.Load() {
				lie(x, before)
				l.did("slot %d: another outcome", slotNumber)
			}
		}}
	}
}

// ownsOneFrame changes the first frame alone that it reduces in a slot.
func ownsOneFrame(l *liar) habit {
	spoilt, which := uint64(0), 0
	h := owns(func(x, _ []float32) { scale(x, 30) })(l)
	all := h.reduces
	h.reduces = func(slotNumber uint64, frame int, x []float32) {
		if spoilt != slotNumber {
			spoilt, which = slotNumber, frame
		}
		if frame == which {
			all(slotNumber, frame, x)
		}
	}
	return h
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// publishes makes a kind that publishes false figures of who contributed what.
func publishes(change func(*slot.Figure)) func(*liar) habit {
	return func(l *liar) habit {
		return habit{figures: func(slotNumber uint64, row slot.FigureRow) {
			for i := range row.Of {
				change(&row.Of[i])
			}
			l.did("slot %d: false figures", slotNumber)
		}}
	}
}

// falseNorms offers contributions with norms that their frames do not have.
func falseNorms(l *liar) habit {
	return habit{offers: func(slotNumber uint64, c *allreduce.Contribution) {
		for f := range c.Leaves() {
			c.Leaves()[f].NormSq *= 4
		}
		c.Recommit()
		l.did("slot %d: an offer with false norms", slotNumber)
	}}
}

// hides makes a kind that gives owners what it has offered, and shows auditors something else.
func hides(change func(wire.Stream) wire.Stream) func(*liar) habit {
	return func(l *liar) habit {
		return habit{audits: func(opened bool, s wire.Stream) wire.Stream {
			if opened {
				return s
			}
			l.did("slot %d: auditors are shown nothing of it", l.driver.View().Tip.Slot+1)
			return change(s)
		}}
	}
}

func silently(s wire.Stream) wire.Stream { return silent{s} }
func garbling(s wire.Stream) wire.Stream { return garbled{s} }

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
