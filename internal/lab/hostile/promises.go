package hostile

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// forgePromise does nothing where it leads. Wherever it promises, it claims a lock that never was:
// on a record that lists nobody else.
func forgePromise(l *liar) habit {
	return habit{says: func(to slot.PeerID, m wire.Message) bool {
		p, ok := m.Body.(wire.Promise)
		if !ok || p.Ballot == 0 {
			return !leadersWork(m.Body)
		}
		l.did("height %d: a promise with a lock that never was", p.Height)
		l.say(l.forged(p.Ref), to)
		return false
	}}
}

// forged is a promise with a lock of the ballot before, whose QC has this peer's HAVE alone.
func (l *liar) forged(at slot.Ref) wire.Promise {
	v := l.driver.View()
	r := slot.Record{
		Run: l.run, Height: at.Height, Kind: slot.Members, Prev: at.Prev, Slot: v.Tip.Slot, StateRoot: v.StateRoot,
		Work: v.Tip.Work, Evicted: v.Tip.Evicted,
	}
	for _, m := range v.Tip.Members {
		if m.Peer == l.self {
			r.Members = []slot.Member{m}
		}
	}
	vote := slot.Vote{Ref: at, Hash: r.Hash()}
	vote.Ballot = at.Ballot - 1
	q := wire.QC{Ballot: vote.Ballot, Hash: vote.Hash, Haves: []wire.SignedHave{{
		Peer: l.self, Incarnation: l.driver.Incarnation(), Ballot: vote.Ballot, Sig: l.sign(wire.Have{Vote: vote}),
	}}}
	lock := q.Lock()
	return wire.Promise{Ref: at, Lock: &lock, Locked: &wire.Locked{QC: q, Record: r}}
}

// promiseAll promises a ballot, without a lock, to all electors.
func (l *liar) promiseAll(v membership.View, at slot.Ref) {
	for _, e := range v.Tip.Electors() {
		l.say(wire.Promise{Ref: at}, e.Peer)
	}
}

// Ballots that highBallot names: one far above all others, and steps that members may still take.
const (
	hugeBallot = 1 << 31
	ballotStep = 1 << 15
)

// highBallot does nothing where it leads, and names ballots that only grow: in promises to all
// electors, and in its own name where it would lead them.
func highBallot(l *liar) habit {
	h := habit{says: func(_ slot.PeerID, m wire.Message) bool { return !leadersWork(m.Body) }}
	height, climbed := uint64(0), uint32(0)
	h.acts = func() {
		v := l.driver.View()
		if !v.IsMember {
			return
		}
		if height != v.Ref.Height {
			height, climbed = v.Ref.Height, 0
		}
		climbed += ballotStep
		for _, ballot := range []uint32{climbed, hugeBallot} {
			l.nameTerms(v, ballot)
		}
		l.did("height %d: ballots above %d", v.Ref.Height, climbed)
	}
	return h
}

// nameTerms promises the first ballots of as many terms in a row as there are members, and asks for
// the second ones: it leads one of them.
func (l *liar) nameTerms(v membership.View, first uint32) {
	at := v.Ref
	end := first + uint32(len(v.Tip.Members))*slot.Tries
	for at.Ballot = first; at.Ballot < end; at.Ballot += slot.Tries {
		l.promiseAll(v, at)
		next := at
		next.Ballot++
		l.say(wire.Retry{Ref: next}, v.Peers()...)
	}
}
