package hostile

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// plans has its ledger plan in another way, and notes the plans for which ours holds.
func (l *liar) plans(ours func(wire.Plan) bool, change func(*membership.DriverConfig)) {
	l.Ledger = func(cfg *membership.DriverConfig) {
		l.wrap(cfg)
		change(cfg)
	}
	l.says = func(_ slot.PeerID, m wire.Message) bool {
		if p, ok := m.Body.(wire.Plan); ok && ours(p) {
			l.did("slot %d: a plan of its own", p.Slot)
		}
		return true
	}
}

// solo plans its own offer alone: as leader it knows of no other, and waits for none.
func solo(l *liar) {
	l.plans(func(p wire.Plan) bool { return len(p.Offers) == 1 }, func(cfg *membership.DriverConfig) {
		t := &cfg.Timing
		t.MinGrace, t.GraceFactor, t.GraceShare, t.Straggler = time.Millisecond, 0, 0, time.Millisecond
	})
	l.hears = func(_ slot.PeerID, m wire.Message) bool {
		_, offer := m.Body.(wire.Offer)
		return !offer
	}
}

// grab owns every segment of the plans that it makes.
func grab(l *liar) {
	grabbed := func(p wire.Plan) bool { return len(p.Pieces) == 1 && len(p.Offers) > 1 }
	l.plans(grabbed, func(cfg *membership.DriverConfig) {
		fair := cfg.Plan
		cfg.Plan = func(p slot.Plan, links slot.Links) (pieces []slot.Piece, ring []uint16) {
			pieces, ring = fair(p, links)
			l.attacking(func() {
				if n := len(pieces); p.Place(l.self) >= 0 && n > 0 {
					whole := slot.Range{Begin: pieces[0].Range.Begin, End: pieces[n-1].Range.End}
					pieces, ring = []slot.Piece{{Range: whole, Owner: l.self}}, nil
				}
			})
			return pieces, ring
		}
	})
}

// leadsNot does nothing where it leads, and says other messages as others do.
func leadsNot(_ slot.PeerID, m wire.Message) bool {
	switch m.Body.(type) {
	case wire.Plan, wire.Draft, wire.Propose, wire.Beat:
		return false
	}
	return true
}

// stall shows progress without end where it leads, and makes none.
func stall(l *liar) {
	l.says = leadsNot
	rising := uint32(0)
	l.acts = func() {
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
}

// hideCertificate collects the votes for what it proposes, and keeps the certificate to itself.
func hideCertificate(l *liar) {
	l.says = func(_ slot.PeerID, m wire.Message) bool {
		c, ok := m.Body.(wire.Commit)
		if ok {
			l.did("height %d: a certificate that it kept", c.Certificate.Height)
		}
		return !ok
	}
}

// listing is a draft with the members of its record for which keep holds.
func listing(d wire.Draft, keep func(slot.Member) bool) wire.Draft {
	d.Record.Members = slices.DeleteFunc(slices.Clone(d.Record.Members), func(m slot.Member) bool { return !keep(m) })
	d.Hash = d.Record.Hash()
	return d
}

// usurp drafts records that list nobody but itself.
func usurp(l *liar) {
	l.drafts(func(to slot.PeerID, d wire.Draft) {
		l.did("height %d: a record that lists nobody else", d.Height)
		l.say(listing(d, l.is), to)
	})
}

// equivocate drafts one record to half of the members, and to the others one that leaves out a
// member. One of them gets both.
func equivocate(l *liar) {
	l.drafts(func(to slot.PeerID, d wire.Draft) {
		others := l.others()
		half := (len(others) + 1) / 2
		if at := slices.Index(others, to); to == "" || at < half {
			l.say(d, to)
		} else {
			l.did("height %d: two records in one ballot", d.Height)
			l.say(listing(d, func(m slot.Member) bool { return m.Peer != others[0] }), to, others[half-1])
		}
	})
}

// drafts has what its ledger drafts go out in another form.
func (l *liar) drafts(send func(to slot.PeerID, d wire.Draft)) {
	l.says = func(to slot.PeerID, m wire.Message) bool {
		d, is := m.Body.(wire.Draft)
		if is && d.ByPlan == nil { // the ledger repeats the whole draft soon
			send(to, d)
		}
		return !is
	}
}
