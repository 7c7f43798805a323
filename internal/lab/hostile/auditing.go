package hostile

import (
	"crypto/rand"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
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
func badAuditor(l *liar) {
	offers := map[slot.PeerID]wire.Offer{} // the newest of each peer
	var last wire.Message                  // that it made an accusation of
	turn := func(what uint64) bool { return l.now()%auditorWays == what }
	l.says = func(_ slot.PeerID, m wire.Message) bool {
		h, have := m.Body.(wire.Have)
		if !have || !turn(isSilent) {
			return true
		}
		l.did("height %d: it says nothing of the outcome", h.Height)
		return false
	}
	l.hears = func(_ slot.PeerID, m wire.Message) bool {
		switch b := m.Body.(type) {
		case wire.Offer:
			if offers[m.From] = b; turn(accuses) {
				last = m
				l.accuse(m)
				l.did("slot %d: it accuses %s", b.Slot, m.From.Short())
			}
		case wire.Ask:
			l.say(hollow(last, 9<<10), m.From)
		case wire.Evidence:
			return !b.Proven() // it covers up for others
		}
		return true
	}
	l.streams(p2p.ProtocolAudit, func(opened bool, s canonical.Stream) (canonical.Stream, string) {
		if !opened || !turn(devours) {
			return nil, ""
		}
		return &glutton{s, l, slices.Collect(maps.Values(offers))}, "it asks for everything"
	})
	l.Passes = func(slotNumber uint64) (pass bool) {
		l.attacking(func() {
			if pass = slotNumber%auditorWays == looksAway; pass {
				l.did("slot %d: it passes the outcome", slotNumber)
			}
		})
		return pass
	}
}

// accuse announces evidence against whoever has signed an offer: some that is as small as a proof
// may be, and some that is only named, as large evidence is.
func (l *liar) accuse(o wire.Message) {
	e := hollow(o, 500)
	l.say(e, "")
	e.Kind = wire.KindFalseOutcome
	e.First = wire.SignedBody{Body: wire.Segment{Segment: slot.Segment{Contributors: slot.NewBitmap(1)}}.Append(nil)}
	l.say(e, "")
	a := wire.Accuse{Peer: o.From, Incarnation: o.Incarnation}
	_, _ = rand.Read(a.Hash[:]) // it never fails
	l.say(a, "")
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

// glutton is a stream of an audit. Once the audit has its answers, far more is asked for on it than
// an honest auditor needs.
type glutton struct {
	canonical.Stream
	l      *liar
	offers []wire.Offer
}

// CloseWrite leaves the stream open: more is asked for.
func (g *glutton) CloseWrite() error { return nil }

// gluttonTime bounds how long the rest takes.
const gluttonTime = 5 * time.Second

// Close ends the audit's use of the stream, and begins with all the rest.
func (g *glutton) Close() error {
	_ = g.SetDeadline(time.Now().Add(gluttonTime))
	go func() {
		defer g.Stream.Reset() //nolint:errcheck // nobody uses it any more
		_, _ = io.Copy(io.Discard, g.Stream)
	}()
	go func() {
		defer g.Stream.CloseWrite() //nolint:errcheck // the other side has ended it
		g.askMore()
	}()
	return nil
}

// gluttonElements is how much of each contribution is asked for.
const gluttonElements = 8 << 20

// askMore asks for each frame of everybody's contribution, again and again, and in one case of four
// for a contribution that nobody has offered.
func (g *glutton) askMore() {
	n, size := uint64(len(g.offers)), g.l.rules.Frame
	for k := range n * (gluttonElements / size) {
		o := g.offers[k%n]
		elements := g.l.rules.Elements(o.Slot)
		begin := k / n * size % elements / size * size
		q := auditor.Request{
			Slot: o.Slot, Root: o.Root, Fragment: g.l.rules.Fragment(o.Slot),
			Range: slot.Range{Begin: begin, End: min(begin+size, elements)},
		}
		if k/n%4 == 3 {
			_, _ = rand.Read(q.Root[:]) // it never fails
		}
		if canonical.WriteMessage(g.Stream, q.Append(nil)) != nil {
			return
		}
	}
}
