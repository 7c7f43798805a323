package hostile

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// impatient closes a plan as soon as there is an offer.
func impatient(cfg *membership.DriverConfig) {
	t := &cfg.Timing
	t.MinGrace, t.GraceFactor, t.GraceShare, t.Straggler = time.Millisecond, 0, 0, time.Millisecond
}

// solo plans its own offer alone: as leader it knows of no other.
func solo(l *liar) habit {
	return habit{
		prepares: impatient,
		hears: func(m wire.Message) bool {
			_, offer := m.Body.(wire.Offer)
			return !offer
		},
		says: func(_ slot.PeerID, m wire.Message) bool {
			if p, ok := m.Body.(wire.Plan); ok && len(p.Offers) == 1 {
				l.did("slot %d: a plan of its own offer alone", p.Slot)
			}
			return true
		},
	}
}

// earlyClose opens the reduction with whoever has offered when it has itself, which is first:
// whoever starts it gives it faster inner steps than the others have.
func earlyClose(l *liar) habit {
	return habit{
		prepares: impatient,
		says: func(_ slot.PeerID, m wire.Message) bool {
			if p, ok := m.Body.(wire.Plan); ok && 2*len(p.Offers) < len(l.driver.View().Tip.Members) {
				l.did("slot %d: a plan that was closed with %d offers", p.Slot, len(p.Offers))
			}
			return true
		},
	}
}

// grab owns every segment of the plans that it makes.
func grab(l *liar) habit {
	return habit{
		prepares: func(cfg *membership.DriverConfig) {
			fair := cfg.Plan
			cfg.Plan = func(p slot.Plan, links slot.Links) ([]slot.Piece, []uint16) {
				pieces, ring := fair(p, links)
				if !l.begun.Load() || p.Place(l.self) < 0 || len(pieces) == 0 {
					return pieces, ring
				}
				whole := slot.Range{Begin: pieces[0].Range.Begin, End: pieces[len(pieces)-1].Range.End}
				return []slot.Piece{{Range: whole, Owner: l.self}}, nil
			}
		},
		says: func(_ slot.PeerID, m wire.Message) bool {
			if p, ok := m.Body.(wire.Plan); ok && len(p.Pieces) == 1 && len(p.Offers) > 1 {
				l.did("slot %d: a plan of which it owns all", p.Slot)
			}
			return true
		},
	}
}

// leadersWork says whether a message is one by which a leader gets a record decided.
func leadersWork(b wire.Body) bool {
	switch b.(type) {
	case wire.Plan, wire.Draft, wire.Propose, wire.Beat:
		return true
	}
	return false
}

// stallOwnTerms does nothing where it leads, and all that it owes to other leaders.
func stallOwnTerms(l *liar) habit {
	return habit{says: func(_ slot.PeerID, m wire.Message) bool {
		if !leadersWork(m.Body) {
			return true
		}
		if a, ok := m.Body.(wire.Attempt); ok {
			l.did("height %d: it led, and said nothing", a.At().Height)
		}
		return false
	}}
}

// stall shows progress without end where it leads, and makes none.
func stall(l *liar) habit {
	h := stallOwnTerms(l)
	rising := uint32(0)
	h.acts = func() {
		v := l.driver.View()
		if !l.leads(v) {
			return
		}
		rising++
		l.say(wire.Beat{
			Ref: v.Ref, Revision: 1, Offers: rising, Bytes: uint64(rising) << 16, Haves: rising, Votes: rising,
			Segments: rising,
		}, v.Peers()...)
		l.did("height %d: it led, and said nothing", v.Ref.Height)
	}
	return h
}

// hideCertificate collects the votes for what it proposes, and keeps the certificate to itself.
func hideCertificate(l *liar) habit {
	return habit{says: func(_ slot.PeerID, m wire.Message) bool {
		c, ok := m.Body.(wire.Commit)
		if !ok {
			return true
		}
		l.did("height %d: a certificate that it kept", c.Certificate.Height)
		return false
	}}
}
