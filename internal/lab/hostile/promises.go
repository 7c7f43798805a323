package hostile

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// forgePromise does nothing where it leads, and promises the next leader with a lock that never
// was: on a record that lists nobody else.
func forgePromise(l *liar) habit {
	return habit{says: func(to slot.PeerID, m wire.Message) bool {
		p, ok := m.Body.(wire.Promise)
		if !ok || p.Ballot == 0 {
			return !leadersWork(m.Body)
		}
		l.did("height %d: a promise with a lock that never was", p.Height)
		v := l.driver.View()
		r := slot.Record{
			Run: l.run, Height: p.Height, Kind: slot.Members, Prev: p.Prev, Slot: v.Tip.Slot, StateRoot: v.StateRoot,
			Work: v.Tip.Work, Evicted: v.Tip.Evicted,
		}
		for _, m := range v.Tip.Members {
			if m.Peer == l.self {
				r.Members = []slot.Member{m}
			}
		}
		vote := slot.Vote{Ref: p.Ref, Hash: r.Hash()}
		vote.Ballot = p.Ballot - 1
		q := wire.QC{Ballot: vote.Ballot, Hash: vote.Hash, Haves: []wire.SignedHave{{
			Peer: l.self, Incarnation: l.driver.Incarnation(), Ballot: vote.Ballot, Sig: l.sign(wire.Have{Vote: vote}),
		}}}
		lock := q.Lock()
		l.say(wire.Promise{Ref: p.Ref, Lock: &lock, Locked: &wire.Locked{QC: q, Record: r}}, to)
		return false
	}}
}

// Ballots that highBallot names: one far above all others, and steps that members may still take.
const (
	hugeBallot = 1 << 31
	ballotStep = 1 << 15
)

// highBallot does nothing where it leads, and names ballots that only grow, in promises and in its
// own name.
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
			ref := v.Ref
			// it leads one of so many terms in a row
			end := ballot + uint32(len(v.Tip.Members))*slot.Tries
			for ref.Ballot = ballot; ref.Ballot < end; ref.Ballot += slot.Tries {
				l.say(wire.Promise{Ref: ref}, v.Peers()...)
				ref.Ballot++
				l.say(wire.Retry{Ref: ref}, v.Peers()...)
			}
		}
		l.did("height %d: ballots above %d", v.Ref.Height, climbed)
	}
	return h
}
