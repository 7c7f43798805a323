package hostile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// bid is a record that a hostile leader wants decided by some of the members, in the place of what
// its ledger drafted. It has the leader's part of a height: it gathers HAVEs, then votes.
type bid struct {
	*liar
	rules    chain.Rules
	electors []slot.Member // who decide
	draft    wire.Draft
	to       []slot.PeerID
	haves    map[slot.PeerID]wire.SignedHave
	votes    map[slot.PeerID][]byte
	proposed bool
	decided  bool
}

// bid makes one, signed as an honest leader would have it. It is sent with open.
func (l *liar) bid(d wire.Draft, to []slot.PeerID) *bid {
	return &bid{
		liar: l, rules: l.rules, electors: l.driver.View().Tip.Electors(), draft: d, to: to,
		haves: map[slot.PeerID]wire.SignedHave{l.self: {
			Peer: l.self, Incarnation: l.driver.Incarnation(), Ballot: d.Ballot, Sig: l.sign(wire.Have{Vote: d.Vote}),
		}},
		votes: map[slot.PeerID][]byte{l.self: l.sign(wire.Vote{Vote: d.Vote})},
	}
}

// sign is the signature alone of a body.
func (l *liar) sign(body wire.Body) []byte {
	m, _, err := wire.SealMessage(l.signer, l.run, l.driver.Incarnation(), body)
	if err != nil {
		return nil
	}
	return m.Sig
}

// listing is a draft with the members of its record for which keep holds.
func listing(d wire.Draft, keep func(slot.Member) bool) wire.Draft {
	d.Record.Members = slices.DeleteFunc(slices.Clone(d.Record.Members), func(m slot.Member) bool { return !keep(m) })
	d.Hash = d.Record.Hash()
	return d
}

func (b *bid) open() { b.say(b.draft, b.to...) }

// hears takes what the members answer. It says whether a message was an answer to this bid.
func (b *bid) hears(m wire.Message) bool {
	switch body := m.Body.(type) {
	case wire.Have:
		if body.Vote != b.draft.Vote {
			return false
		}
		b.haves[m.From] = wire.SignedHave{
			Peer: m.From, Incarnation: m.Incarnation, Ballot: body.Ballot, Sig: m.Sig,
		}
		b.propose()
		return true
	case wire.Vote:
		if body.Vote != b.draft.Vote {
			return false
		}
		b.votes[m.From] = m.Sig
		b.commit()
		return true
	}
	return false
}

func (b *bid) propose() {
	gave := func(m slot.Member) bool { return b.haves[m.Peer].Sig != nil }
	if b.proposed || !b.rules.Quorum(b.electors, gave) {
		return
	}
	b.proposed = true
	b.did("height %d: a QC for its record", b.draft.Height)
	q := wire.QC{Ballot: b.draft.Ballot, Hash: b.draft.Hash, Haves: slices.SortedFunc(maps.Values(b.haves),
		func(x, y wire.SignedHave) int { return cmp.Compare(x.Peer, y.Peer) })}
	b.say(wire.Propose{Vote: b.draft.Vote, QC: &q}, b.to...)
}

func (b *bid) commit() {
	if b.decided || !b.rules.Quorum(b.electors, func(m slot.Member) bool { return b.votes[m.Peer] != nil }) {
		return
	}
	b.decided = true
	b.did("height %d: a certificate for its record", b.draft.Height)
	c := slot.Certificate{Vote: b.draft.Vote}
	for _, p := range slices.Sorted(maps.Keys(b.votes)) {
		c.Signatures = append(c.Signatures, slot.Signature{Peer: p, Sig: b.votes[p]})
	}
	b.say(wire.Commit{Record: b.draft.Record, Certificate: c}, b.to...)
}

// bids are what a hostile leader has open: all in one ballot.
type bids []*bid

// in says whether the bids are of the ballot of a draft.
func (bs bids) in(d wire.Draft) bool { return len(bs) > 0 && bs[0].draft.Ref == d.Ref }

func (bs bids) hears(m wire.Message) bool {
	taken := false
	for _, b := range bs {
		taken = b.hears(m) || taken
	}
	return !taken
}

// usurp drafts records that list nobody but itself.
func usurp(l *liar) habit {
	return l.replaces(func(d wire.Draft) bids {
		l.did("height %d: a record that lists nobody else", d.Height)
		alone := listing(d, func(m slot.Member) bool { return m.Peer == l.self })
		return bids{l.bid(alone, l.driver.View().Peers())}
	})
}

// sybil is one of several peers that know each other and have no trainer. Whichever leads drafts
// records that list nobody else.
func sybil(l *liar) habit {
	h := l.replaces(func(d wire.Draft) bids {
		friends := l.friends()
		l.did("height %d: a record that lists only the %d of them", d.Height, len(friends))
		those := listing(d, func(m slot.Member) bool { return slices.Contains(friends, m.Peer.String()) })
		return bids{l.bid(those, l.driver.View().Peers())}
	})
	drafts := h.says
	h.says = func(to slot.PeerID, m wire.Message) bool {
		if _, join := m.Body.(wire.Join); join {
			l.did("%s asks to be listed", l.self.Short())
		}
		return drafts(to, m)
	}
	return h
}

// equivocate drafts one record to half of the members, and to the others one that leaves out a
// member. One of them gets both.
func equivocate(l *liar) habit {
	return l.replaces(func(d wire.Draft) bids {
		others := slices.DeleteFunc(l.driver.View().Peers(), func(p slot.PeerID) bool { return p == l.self })
		if len(others) < 2 {
			return bids{l.bid(d, others)}
		}
		l.did("height %d: two records in one ballot", d.Height)
		half := (len(others) + 1) / 2
		without := listing(d, func(m slot.Member) bool { return m.Peer != others[0] })
		return bids{l.bid(d, others[:half]), l.bid(without, others[half-1:])}
	})
}

// replaces makes bids of what its ledger drafts, and gives the ledger no answer to them.
func (l *liar) replaces(bid func(wire.Draft) bids) habit {
	var open bids
	return habit{
		says: func(_ slot.PeerID, m wire.Message) bool {
			d, ok := m.Body.(wire.Draft)
			if !ok {
				return true
			}
			if d.ByPlan != nil { // its ledger repeats the whole draft soon
				return false
			}
			if !open.in(d) {
				open = bid(d)
			}
			for _, b := range open {
				b.open()
			}
			return false
		},
		hears: func(m wire.Message) bool { return open.hears(m) },
	}
}
