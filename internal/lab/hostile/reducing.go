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

// lies are the outcomes that badOwner signs, given that of the contributions and the one of the
// slot before.
var lies = []struct {
	name string
	of   func(x, before []float32)
}{
	{"ten times the opposite", func(x, _ []float32) { scale(x, -10) }},
	{"the opposite", func(x, _ []float32) { scale(x, -1) }},
	{"one frame thirty times as long", func(x, _ []float32) { scale(x, 30) }},
	{"zeros", func(x, _ []float32) { clear(x) }},
	{"the outcome of the slot before", func(x, before []float32) { copy(x, before) }},
}

const oneFrame = 2 // of lies: the other frames are as they should be

// badOwner signs outcomes that are not those of the contributions. Slot and peer say which lie.
func badOwner(l *liar) habit {
	kept := map[int][]float32{} // the true values of each frame, when it was reduced here last
	spoilt := slot.Range{}      // the slot with the one frame, and that frame
	return habit{reduces: func(slotNumber uint64, frame int, x []float32) {
		before, had := kept[frame]
		kept[frame] = slices.Clone(x)
		if !l.begun.Load() {
			return
		}
		way := int(slotNumber+uint64(l.self[len(l.self)-1])) % len(lies)
		if way == oneFrame && spoilt.Begin != slotNumber {
			spoilt = slot.Range{Begin: slotNumber, End: uint64(frame)}
		}
		if way == oneFrame && spoilt.End != uint64(frame) {
			return
		}
		if !had {
			before = make([]float32, len(x))
		}
		lies[way].of(x, before)
		l.did("slot %d: an outcome that is %s", slotNumber, lies[way].name)
	}}
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// Slots of each way in which badContributor lies, in this order.
const (
	silentSlots  = 2
	garbledSlots = 2
)

// badContributor gives owners what it has offered, and shows auditors nothing, then other bytes.
// In the end it offers contributions with false norms.
func badContributor(l *liar) habit {
	first := uint64(0)
	since := func(slotNumber uint64) int {
		if first == 0 {
			first = slotNumber
		}
		return int(slotNumber - first)
	}
	return habit{
		audits: func(opened bool, s wire.Stream) wire.Stream {
			now := l.driver.View().Tip.Slot + 1
			switch n := since(now); {
			case opened || n >= silentSlots+garbledSlots:
				return s
			case n < silentSlots:
				l.did("slot %d: auditors are shown nothing", now)
				return silent{s}
			}
			l.did("slot %d: auditors are shown other bytes", now)
			return garbled{s}
		},
		offers: func(slotNumber uint64, c *allreduce.Contribution) {
			if since(slotNumber) < silentSlots+garbledSlots {
				return
			}
			for f := range c.Leaves() {
				c.Leaves()[f].NormSq *= 4
			}
			c.Recommit()
			l.did("slot %d: an offer with false norms", slotNumber)
		},
	}
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
