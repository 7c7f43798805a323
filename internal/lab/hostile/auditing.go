package hostile

import (
	"crypto/rand"
	"io"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// What badAuditor does in a slot: the slot's number modulo auditorWays says which.
const (
	accuses   = iota // everybody, with proofs that prove nothing
	devours          // asks everybody for everything
	looksAway        // passes everything without a look
	isSilent         // says of no outcome whether it is right
	auditorWays
)

// badAuditor does another thing in each of four slots.
func badAuditor(l *liar) habit {
	offers := map[slot.PeerID]wire.Message{} // the newest of each peer
	accused := map[slot.PeerID]uint64{}      // in which slot
	var last wire.Message                    // that it made an accusation of
	feasts := 0                              // streams on which it asked for too much
	turn := func(slotNumber uint64, what uint64) bool { return slotNumber%auditorWays == what }
	return habit{
		says: func(_ slot.PeerID, m wire.Message) bool {
			h, have := m.Body.(wire.Have)
			if !have || !turn(l.driver.View().Tip.Slot+1, isSilent) {
				return true
			}
			l.did("height %d: it says nothing of the outcome", h.Height)
			return false
		},
		hears: func(m wire.Message) bool {
			switch b := m.Body.(type) {
			case wire.Offer:
				offers[m.From] = m
			case wire.Ask:
				l.say(hollow(last, 9<<10), m.From)
			case wire.Evidence:
				return !b.Proven() // it covers up for others
			}
			return true
		},
		acts: func() {
			now := l.driver.View().Tip.Slot + 1
			for p, o := range offers {
				if turn(now, accuses) && accused[p] != now {
					accused[p], last = now, o
					l.accuse(o)
					l.did("slot %d: it accuses %s", now, p.Short())
				}
			}
		},
		audits: func(opened bool, s canonical.Stream) canonical.Stream {
			now := l.driver.View().Tip.Slot + 1
			if !opened || !turn(now, devours) {
				return s
			}
			feasts++
			return &glutton{
				Stream: s, rules: l.rules, offers: slices.Collect(maps.Values(offers)), passing: feasts%2 == 0,
				did: func(what string) { l.attacking(func() { l.did("slot %d: %s", now, what) }) },
			}
		},
		passes: func(slotNumber uint64) bool {
			if !turn(slotNumber, looksAway) {
				return false
			}
			l.did("slot %d: it passes the outcome", slotNumber)
			return true
		},
	}
}

// accuse announces evidence against whoever has signed an offer: some that is as small as a proof
// may be, and some that is only named, as large evidence is.
func (l *liar) accuse(o wire.Message) {
	e := hollow(o, 500)
	l.gossip(e)
	e.Kind = wire.KindFalseOutcome
	e.First = wire.SignedBody{Body: wire.Segment{Segment: slot.Segment{Contributors: slot.NewBitmap(1)}}.Append(nil)}
	l.gossip(e)
	a := wire.Accuse{Peer: o.From, Incarnation: o.Incarnation}
	_, _ = rand.Read(a.Hash[:]) // it never fails
	l.gossip(a)
}

// hollow is evidence with a true signature, and a proof of any bytes.
func hollow(o wire.Message, size int) wire.Evidence {
	offer, _ := o.Body.(wire.Offer)
	p := audit.Proof{
		Kind: audit.FalseContribution, Offer: offer.Offer,
		Openings: []audit.Opening{{Range: slot.Range{End: 256}, Bytes: make([]byte, size)}},
	}
	_, _ = rand.Read(p.Openings[0].Bytes) // it never fails
	return wire.Evidence{
		Kind: wire.KindFalseOffer, Peer: o.From, Incarnation: o.Incarnation,
		First:  wire.SignedBody{Body: offer.Append(nil), Sig: o.Sig},
		Second: wire.SignedBody{Body: p.Append(nil)},
	}
}

// deaf hears no answer to what it asks contributors.
func deaf(l *liar) habit {
	return habit{audits: func(opened bool, s canonical.Stream) canonical.Stream {
		if !opened {
			return s
		}
		l.did("slot %d: it hears no answer", l.driver.View().Tip.Slot+1)
		return unheard{s}
	}}
}

// unheard is a stream that ends at once.
type unheard struct{ canonical.Stream }

func (unheard) Read([]byte) (int, error) { return 0, io.EOF }
