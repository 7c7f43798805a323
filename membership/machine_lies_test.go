package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// labLie is a kind of lie. At night TestRandom and TestRandomForgets fail if one of theirs got
// nowhere.
type labLie struct {
	name    string
	cost    lieCost
	refused string // with which honest peers refuse it; empty: some take it in
	// nil: there is nothing to lie about
	make func(*labLiar, *Machine) wire.Body
}

// lieCost says what a lie costs in the end.
type lieCost int

const (
	costsNothing lieCost = iota
	convictsLiar         // two of these are evidence
	dropsLiar            // the liar is no member then
)

// labLiesBeside are lies that have most effect beside what the machine has just said.
var labLiesBeside = map[slot.MessageType][]string{
	slot.TypePlan:    {"plan of its own"},
	slot.TypeSegment: {"segment", "part of a segment", "lost"},
	slot.TypeDraft:   {"draft", "second draft"},
	slot.TypeHave:    {"have", "shown nothing"},
	slot.TypePropose: {"propose"},
	slot.TypeVote:    {"vote", "commit"},
	slot.TypePromise: {"promise", "retry"},
	slot.TypeFork:    {"fork vote"},
}

// labLies are what a liar may say.
var labLies = []labLie{
	{"draft", convictsLiar, "", func(l *labLiar, m *Machine) wire.Body {
		r, ref := l.record(), l.ref()
		g := wire.Grounds{}
		if p := l.sign(wire.Promise{Ref: ref}); ref.Ballot > 0 {
			g.Promises = []wire.Promised{{Peer: p.From, Incarnation: p.Incarnation, Sig: p.Sig}}
			if l.r.IntN(2) == 0 {
				q := l.qc(slot.Vote{Ref: ref, Hash: r.Hash()})
				g.QC = &q
			}
		}
		return wire.Draft{
			Vote:    slot.Vote{Ref: ref, Hash: r.Hash()},
			Drafted: wire.Drafted{Record: r, Proofs: m.proofs.list(r.Contributions), Grounds: g},
		}
	}},
	{"second draft", convictsLiar, "", func(l *labLiar, m *Machine) wire.Body {
		lead := m.open.lead
		if lead == nil || lead.draft == nil {
			return nil
		}
		r := l.record()
		return wire.Draft{
			Vote:    slot.Vote{Ref: lead.ref, Hash: r.Hash()},
			Drafted: wire.Drafted{Record: r, Proofs: m.proofs.list(r.Contributions), Grounds: lead.grounds},
		}
	}},
	{"have", convictsLiar, "", func(l *labLiar, _ *Machine) wire.Body { return wire.Have{Vote: l.vote()} }},
	{"vote", convictsLiar, "", func(l *labLiar, _ *Machine) wire.Body { return wire.Vote{Vote: l.vote()} }},
	{"promise", costsNothing, "", func(l *labLiar, _ *Machine) wire.Body {
		p := wire.Promise{Ref: l.ref()}
		if l.r.IntN(2) == 0 {
			r := l.record()
			v := slot.Vote{Ref: p.Ref, Hash: r.Hash()}
			v.Ballot = uint32(l.r.IntN(int(min(p.Ballot, 8)) + 1))
			q := l.qc(v)
			lock := q.Lock()
			p.Lock = &lock
			if l.r.IntN(2) == 0 {
				p.Locked = &wire.Locked{QC: q, Record: r}
			}
		}
		return p
	}},
	{"retry", costsNothing, "", func(l *labLiar, _ *Machine) wire.Body { return wire.Retry{Ref: l.ref()} }},
	{"propose", costsNothing, "", func(l *labLiar, _ *Machine) wire.Body {
		v := l.vote()
		q := l.qc(v)
		return wire.Propose{Vote: v, QC: &q}
	}},
	{"statement", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		next := m.chain.Next()
		return wire.Statement{
			Position: wire.Position{Height: next.Height, Prev: next.Prev}, Unheard: l.bitmap(), Mute: l.bitmap(),
		}
	}},
	{"offer", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		return wire.Offer{Offer: slot.Offer{
			Peer: l.p.id, Slot: m.chain.OpenSlot(), Seq: 1<<50 + l.r.Uint64N(1<<40), Base: m.chain.OpenSlot() - 1,
			Weight: l.r.Uint64N(200), Root: slot.Root{byte(l.told)},
		}}
	}},
	{"two offers", convictsLiar, "", func(l *labLiar, m *Machine) wire.Body {
		return wire.Offer{Offer: slot.Offer{
			Peer: l.p.id, Slot: m.chain.OpenSlot(), Seq: 1<<49 + l.r.Uint64N(2), Base: m.chain.OpenSlot() - 1,
			Weight: 1, Root: slot.Root{byte(l.told)},
		}}
	}},
	{"plan with forged offers", costsNothing, "did not sign", func(l *labLiar, m *Machine) wire.Body {
		p := slot.Plan{Ref: l.ref(), Slot: m.chain.OpenSlot(), Revision: uint32(l.told)}
		var proofs []wire.OfferProof
		for _, e := range m.chain.Members() {
			p.Offers = append(p.Offers, slot.Offer{
				Peer: e.Peer, Slot: p.Slot, Seq: 1 << 60, Base: p.Slot - 1, Weight: 1,
			})
			proofs = append(proofs, wire.OfferProof{Incarnation: e.Incarnation, Sig: l.sign(wire.Leave{}).Sig})
		}
		p.Pieces = []slot.Piece{{Range: slot.Range{End: m.chain.Rules().Elements(p.Slot)}, Owner: l.p.id}}
		return wire.Plan{Plan: p, Proofs: proofs}
	}},
	{"plan of its own", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		if m.open.lead == nil || m.own.mine == nil {
			return nil
		}
		p := slot.Plan{
			Ref: m.open.lead.ref, Slot: m.chain.OpenSlot(), Revision: m.open.lead.revision + uint32(l.told),
			Offers: []slot.Offer{*m.own.mine},
		}
		p.Pieces = []slot.Piece{{Range: slot.Range{End: m.chain.Rules().Elements(p.Slot)}, Owner: l.p.id}}
		return wire.Plan{Plan: p, Proofs: m.proofs.list(p.Offers)}
	}},
	{"segment", convictsLiar, "", func(l *labLiar, m *Machine) wire.Body {
		p := m.open.plan
		if p == nil {
			return nil
		}
		all := slot.Range{End: m.chain.Rules().Elements(p.Slot)}
		s := slot.Segment{Range: all, Contributors: slot.NewBitmap(len(p.Offers))}
		s.Contributors.Set(0)
		s.Root = slot.Root{byte(l.told)}
		return segmentOf(*p, s)
	}},
	{"lost", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		p := m.open.plan
		if p == nil {
			return nil
		}
		return wire.Lost{
			Ref: p.Ref, Group: p.Group(), Peer: l.someone().Peer,
			Reason: wire.LostReason(1 + l.r.IntN(int(wire.LostOutcome))),
		}
	}},
	{"beat", costsNothing, "", func(l *labLiar, _ *Machine) wire.Body {
		return wire.Beat{Ref: l.ref(), Revision: uint32(l.told), Offers: uint32(l.told), Bytes: uint64(l.told)}
	}},
	{"join", costsNothing, "", func(*labLiar, *Machine) wire.Body { return wire.Join{Contributes: true} }},
	{"leave", dropsLiar, "", func(l *labLiar, m *Machine) wire.Body {
		self, _ := chain.FindMember(m.chain.Members(), l.p.id, l.p.inc)
		return wire.Leave{Since: self.Since}
	}},
	{"retired", dropsLiar, "", func(l *labLiar, _ *Machine) wire.Body { return wire.Retired{Old: l.p.inc} }},
	{"evidence that is none", costsNothing, "evidence with", func(l *labLiar, _ *Machine) wire.Body {
		e, v := l.someone(), l.vote()
		if e.Peer == l.p.id {
			return nil
		}
		other := v
		other.Ballot++
		one := wire.Message{From: e.Peer, Incarnation: e.Incarnation, Body: wire.Vote{Vote: v}}
		two := one
		two.Body = wire.Vote{Vote: other}
		if l.r.IntN(2) == 0 {
			other = v
			other.Hash[0]++
			two.Body = wire.Vote{Vote: other}
		}
		one.Sig, two.Sig = l.sign(one.Body).Sig, l.sign(two.Body).Sig
		return evidenceOf(one, two)
	}},
	{"alive", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		return wire.Alive{
			Branch: []slot.Root{m.chain.Branch(), {1}}[l.r.IntN(2)], Height: m.chain.Height() + l.r.Uint64N(1<<30),
			Tip: slot.Root{byte(l.told)}, Work: l.r.Uint64(), Synced: true, Contributes: true,
		}
	}},
	{"commit", costsNothing, "does not prove the record", func(l *labLiar, _ *Machine) wire.Body {
		r, ref := l.record(), l.ref()
		v := slot.Vote{Ref: ref, Hash: r.Hash()}
		s := slot.Signature{Peer: l.p.id, Sig: l.sign(wire.Vote{Vote: v}).Sig}
		c := wire.Commit{Record: r, Certificate: slot.Certificate{Vote: v, Signatures: []slot.Signature{s}}}
		if l.r.IntN(2) == 0 {
			c.Record = slot.Record{}
		}
		return c
	}},
	{"fork", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		return wire.ForkDraft{Ballot: uint32(l.r.IntN(4)), Record: l.fork()}
	}},
	{"order", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		return wire.Motion{Motion: slot.Motion{Action: slot.Remove, Peer: l.someone().Peer, From: m.chain.Height()}}
	}},
	{"an accusation", costsNothing, "", func(l *labLiar, _ *Machine) wire.Body {
		e := l.someone()
		return wire.Accuse{Peer: e.Peer, Incarnation: e.Incarnation, Hash: slot.Root{byte(l.told)}}
	}},
	{"a question for evidence", costsNothing, "", func(l *labLiar, _ *Machine) wire.Body {
		if a, ok := lastHeard[wire.Accuse](l); ok && l.r.IntN(2) == 0 {
			return wire.Ask{Hash: a.Hash}
		}
		return wire.Ask{Hash: slot.Root{byte(l.told)}}
	}},
	{
		"a proof that proves nothing", costsNothing, "a proof that proves nothing",
		func(l *labLiar, _ *Machine) wire.Body { return l.falseProof() },
	},
	{"need", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		return wire.Need{From: l.r.Uint64N(m.chain.Height() + 2)}
	}},
	{"shown nothing", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		lost := wire.Lost{Ref: l.ref(), Peer: l.someone().Peer, Reason: wire.LostSamples}
		for _, o := range m.presence.offers() {
			if o.Peer == lost.Peer {
				lost.Round = slot.Hash(o.Append(nil))
			}
		}
		return lost
	}},
	{"fork vote", convictsLiar, "that is signed here", func(l *labLiar, m *Machine) wire.Body {
		d, ok := lastHeard[wire.ForkDraft](l)
		if s := m.fork.signed; s != nil && !ok {
			d, ok = wire.ForkDraft{Ballot: s.Ballot, Record: s.Record}, true
		}
		if !ok || l.r.IntN(2) == 0 { // refused, and evidence beside another one
			d = wire.ForkDraft{Ballot: uint32(l.r.IntN(6)), Record: l.fork()}
		}
		return wire.ForkVote{Vote: slot.Vote{Ref: d.At(), Hash: d.Record.Hash()}}
	}},
	{"part of a segment", convictsLiar, "", func(l *labLiar, m *Machine) wire.Body {
		p := m.open.plan
		if p == nil || len(p.Pieces) == 0 {
			return nil
		}
		rng := p.Pieces[l.r.IntN(len(p.Pieces))].Range
		s := slot.Segment{Range: rng, Contributors: slot.NewBitmap(len(p.Offers))}
		for i := range p.Offers {
			if l.r.IntN(4) > 0 {
				s.Contributors.Set(i)
			}
		}
		s.Root = slot.Root{byte(l.told)}
		return segmentOf(*p, s)
	}},
	{"alive with another state", costsNothing, "", func(l *labLiar, m *Machine) wire.Body {
		return wire.Alive{
			Branch: m.chain.Branch(), Height: m.chain.Height(), Tip: m.chain.TipHash(), Work: m.chain.Tip().Work,
			Applied: l.r.Uint64N(m.chain.Height() + 1), Slot: m.chain.Tip().Slot, Synced: l.r.IntN(2) == 0,
			Contributes: l.r.IntN(2) == 0,
		}
	}},
}
