package membership

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// labLiar makes a peer of the lab hostile. Its machine goes on as any other, so that it is trusted
// and leads; beside what that says, the peer says anything that it can sign, to some, and withholds
// some of what it should say.
type labLiar struct {
	p     *labPeer
	r     *rand.Rand
	kinds []int // of lies that it tells: indices of labLies
	mute  int   // percent of what its machine says that does not reach one
	told  int
}

// newLabLiar makes a peer hostile, in a way of its own: one that tells all kinds of lies is soon
// evicted.
func newLabLiar(p *labPeer, seed uint64) *labLiar {
	l := &labLiar{p: p, r: rand.New(rand.NewPCG(seed, 7))}
	for k := range labLies {
		if l.r.IntN(3) > 0 {
			l.kinds = append(l.kinds, k)
		}
	}
	if l.r.IntN(2) == 0 { // no lie that is evidence
		l.kinds = slices.DeleteFunc(l.kinds, func(k int) bool { return labLies[k].convicts })
	}
	l.mute = []int{0, 0, 10, 50}[l.r.IntN(4)]
	p.lies = l
	p.auditor = labAuditor{forges: l.r.IntN(4) == 0, blind: true}
	if l.r.IntN(3) == 0 {
		p.auditor.hides = []string{"*", "AB", "BC", "CDE"}[l.r.IntN(4)]
	}
	l.goOn()
	return l
}

// goOn lies a few times a second.
func (l *labLiar) goOn() {
	l.p.lab.at(l.p.lab.now+time.Duration(50+l.r.IntN(400))*time.Millisecond, func() {
		l.lie()
		l.goOn()
	})
}

func (l *labLiar) withholds(wire.Message, *labPeer) bool { return l != nil && l.r.IntN(100) < l.mute }

// lie says something to some peers.
func (l *labLiar) lie() {
	if !l.p.up() || l.p.m.chain.Height() == 0 || len(l.kinds) == 0 {
		return
	}
	if l.r.IntN(8) == 0 { // what somebody said before
		if heard := l.p.lab.heard; len(heard) > 0 {
			l.send(heard[l.r.IntN(len(heard))])
		}
		return
	}
	if b := labLies[l.kinds[l.r.IntN(len(l.kinds))]].make(l, l.p.m); b != nil {
		l.say(b)
	}
}

func (l *labLiar) sign(b wire.Body) wire.Message {
	msg := wire.Message{From: l.p.id, Incarnation: l.p.inc, Body: b}
	msg.Sig = labSign(l.p.id, slot.SignedBytes(b.Type(), l.p.lab.rules.Run, l.p.id, l.p.inc, b.Append(nil)))
	return msg
}

func (l *labLiar) say(b wire.Body) { l.send(l.sign(b)) }

func (l *labLiar) send(msg wire.Message) {
	l.told++
	for _, q := range l.p.lab.peers {
		if q != l.p && l.r.IntN(3) > 0 {
			l.p.lab.route(labMessage{q, msg})
		}
	}
}

// overheard keeps what is said for liars.
func (l *lab) overheard(msg wire.Message) {
	l.heard = append(l.heard[max(0, len(l.heard)-200):], msg)
}

// ref is a ballot of the open position, mostly a near one.
func (l *labLiar) ref() slot.Ref {
	d := l.p.m.open
	near := d.ballot + uint32(l.r.IntN(3))
	return d.at([]uint32{d.ballot, near, (d.term() + 1) * slot.Tries, uint32(l.r.IntN(64)), 1 << 30}[l.r.IntN(5)])
}

// record is one that might follow: one that was drafted, or one with another stranger, or without a
// member, or with nobody but this peer.
func (l *labLiar) record() slot.Record {
	m := l.p.m
	if d := m.open.draft; d != nil && l.r.IntN(2) == 0 {
		return d.Record
	}
	listed := slices.Clone(m.chain.Members())
	switch i := l.r.IntN(len(listed)); l.r.IntN(3) {
	case 0:
		listed = with(listed, slot.Member{Peer: labID(string(rune('W' + l.r.IntN(3)))), Incarnation: 1})
	case 1:
		listed = slices.Delete(listed, i, i+1)
	case 2:
		if self, ok := chain.FindMember(listed, l.p.id, l.p.inc); ok {
			listed = []slot.Member{self}
		}
	}
	next := m.chain.Next()
	r := slot.Record{
		Run: m.cfg.Rules.Run, Kind: slot.Members, Height: next.Height, Prev: next.Prev, Slot: m.chain.Tip().Slot,
		StateRoot: m.model.state.root, Work: m.chain.WorkAfter(slot.Members, nil),
	}
	return m.chain.Settle(r, chain.Turnover{Listed: listed})
}

func (l *labLiar) vote() slot.Vote { return slot.Vote{Ref: l.ref(), Hash: l.record().Hash()} }

func (l *labLiar) qc(v slot.Vote) wire.QC {
	have := l.sign(wire.Have{Vote: v})
	return wire.QC{Ballot: v.Ballot, Hash: v.Hash, Haves: []wire.SignedHave{
		{Peer: have.From, Incarnation: have.Incarnation, Ballot: v.Ballot, Sig: have.Sig},
	}}
}

func (l *labLiar) someone() slot.Member {
	ms := l.p.m.chain.Members()
	return ms[l.r.IntN(len(ms))]
}

func (l *labLiar) bitmap() slot.Bitmap {
	b := slot.NewBitmap(len(l.p.m.chain.Members()))
	for i := range len(l.p.m.chain.Members()) {
		if l.r.IntN(2) == 0 {
			b.Set(i)
		}
	}
	return b
}

// labLies are what a liar may say.
var labLies = []struct {
	name     string
	convicts bool // two of these are evidence
	make     func(*labLiar, *Machine) wire.Body
}{
	{"draft", true, func(l *labLiar, m *Machine) wire.Body {
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
			Drafted: wire.Drafted{Record: r, Proofs: m.proofs.of(r.Contributions), Grounds: g},
		}
	}},
	{"second draft", true, func(l *labLiar, m *Machine) wire.Body {
		lead := m.open.lead
		if lead == nil || lead.draft == nil {
			return nil
		}
		r := l.record()
		return wire.Draft{
			Vote:    slot.Vote{Ref: lead.ref, Hash: r.Hash()},
			Drafted: wire.Drafted{Record: r, Proofs: m.proofs.of(r.Contributions), Grounds: lead.grounds},
		}
	}},
	{"have", true, func(l *labLiar, _ *Machine) wire.Body { return wire.Have{Vote: l.vote()} }},
	{"vote", true, func(l *labLiar, _ *Machine) wire.Body { return wire.Vote{Vote: l.vote()} }},
	{"promise", false, func(l *labLiar, _ *Machine) wire.Body {
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
	{"retry", false, func(l *labLiar, _ *Machine) wire.Body { return wire.Retry{Ref: l.ref()} }},
	{"propose", false, func(l *labLiar, _ *Machine) wire.Body {
		v := l.vote()
		q := l.qc(v)
		return wire.Propose{Vote: v, QC: &q}
	}},
	{"statement", false, func(l *labLiar, m *Machine) wire.Body {
		next := m.chain.Next()
		return wire.Statement{
			Position: wire.Position{Height: next.Height, Prev: next.Prev}, Unheard: l.bitmap(), Mute: l.bitmap(),
		}
	}},
	{"offer", false, func(l *labLiar, m *Machine) wire.Body {
		return wire.Offer{Offer: slot.Offer{
			Peer: l.p.id, Slot: m.chain.OpenSlot(), Seq: 1<<50 + l.r.Uint64N(1<<40), Base: m.chain.OpenSlot() - 1,
			Weight: l.r.Uint64N(200), Root: slot.Root{byte(l.told)},
		}}
	}},
	{"two offers", true, func(l *labLiar, m *Machine) wire.Body {
		return wire.Offer{Offer: slot.Offer{
			Peer: l.p.id, Slot: m.chain.OpenSlot(), Seq: 1<<49 + l.r.Uint64N(2), Base: m.chain.OpenSlot() - 1,
			Weight: 1, Root: slot.Root{byte(l.told)},
		}}
	}},
	{"plan with forged offers", false, func(l *labLiar, m *Machine) wire.Body {
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
	{"plan of its own", false, func(l *labLiar, m *Machine) wire.Body {
		if m.open.lead == nil || m.own.mine == nil {
			return nil
		}
		p := slot.Plan{
			Ref: m.open.lead.ref, Slot: m.chain.OpenSlot(), Revision: m.open.lead.revision + uint32(l.told),
			Offers: []slot.Offer{*m.own.mine},
		}
		p.Pieces = []slot.Piece{{Range: slot.Range{End: m.chain.Rules().Elements(p.Slot)}, Owner: l.p.id}}
		return wire.Plan{Plan: p, Proofs: m.proofs.of(p.Offers)}
	}},
	{"segment", true, func(l *labLiar, m *Machine) wire.Body {
		p := m.open.plan
		if p == nil {
			return nil
		}
		all := slot.Range{End: m.chain.Rules().Elements(p.Slot)}
		s := slot.Segment{Range: all, Contributors: slot.NewBitmap(len(p.Offers))}
		s.Contributors.Set(0)
		s.Root = slot.Root{byte(l.told)}
		return wire.Segment{Ref: p.Ref, Group: p.Group(), Inputs: inputsOf(*p, s), Segment: s}
	}},
	{"lost", false, func(l *labLiar, m *Machine) wire.Body {
		p := m.open.plan
		if p == nil {
			return nil
		}
		return wire.Lost{
			Ref: p.Ref, Group: p.Group(), Peer: l.someone().Peer,
			Reason: wire.LostReason(1 + l.r.IntN(int(wire.LostOutcome))),
		}
	}},
	{"beat", false, func(l *labLiar, _ *Machine) wire.Body {
		return wire.Beat{Ref: l.ref(), Revision: uint32(l.told), Offers: uint32(l.told), Bytes: uint64(l.told)}
	}},
	{"join", false, func(*labLiar, *Machine) wire.Body { return wire.Join{Contributes: true} }},
	{"leave", false, func(l *labLiar, m *Machine) wire.Body {
		self, _ := chain.FindMember(m.chain.Members(), l.p.id, l.p.inc)
		return wire.Leave{Since: self.Since}
	}},
	{"retired", false, func(l *labLiar, _ *Machine) wire.Body { return wire.Retired{Old: l.p.inc - 1} }},
	{"evidence that is none", false, func(l *labLiar, _ *Machine) wire.Body {
		e, v := l.someone(), l.vote()
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
	{"alive", false, func(l *labLiar, m *Machine) wire.Body {
		return wire.Alive{
			Branch: []slot.Root{m.chain.Branch(), {1}}[l.r.IntN(2)], Height: m.chain.Height() + l.r.Uint64N(1<<30),
			Tip: slot.Root{byte(l.told)}, Work: l.r.Uint64(), Synced: true, Contributes: true,
		}
	}},
	{"commit", false, func(l *labLiar, _ *Machine) wire.Body {
		r, ref := l.record(), l.ref()
		v := slot.Vote{Ref: ref, Hash: r.Hash()}
		s := slot.Signature{Peer: l.p.id, Sig: l.sign(wire.Vote{Vote: v}).Sig}
		c := wire.Commit{Record: r, Certificate: slot.Certificate{Vote: v, Signatures: []slot.Signature{s}}}
		if l.r.IntN(2) == 0 {
			c.Record = slot.Record{}
		}
		return c
	}},
	{"fork", false, func(l *labLiar, m *Machine) wire.Body {
		r := l.record()
		r.Kind = slot.Fork
		return wire.ForkDraft{Ballot: uint32(l.r.IntN(4)), Record: r}
	}},
	{"order", false, func(l *labLiar, m *Machine) wire.Body {
		return wire.Motion{Motion: slot.Motion{Action: slot.Remove, Peer: l.someone().Peer, From: m.chain.Height()}}
	}},
	{"an accusation", false, func(l *labLiar, _ *Machine) wire.Body {
		e := l.someone()
		return wire.Accuse{Peer: e.Peer, Incarnation: e.Incarnation, Hash: slot.Root{byte(l.told)}}
	}},
	{"a question for evidence", false, func(l *labLiar, _ *Machine) wire.Body {
		return wire.Ask{Hash: slot.Root{byte(l.told)}}
	}},
	{"a proof that proves nothing", false, func(l *labLiar, _ *Machine) wire.Body { return l.falseProof() }},
	{"need", false, func(l *labLiar, m *Machine) wire.Body {
		return wire.Need{From: l.r.Uint64N(m.chain.Height() + 2)}
	}},
}
