package hostile

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// claimedWork is what the branch of heavyFork is said to be worth.
const claimedWork = 1 << 50

// heavyFork forks the run alone, while the others go on, and claims that it trained more than all
// of them together.
func heavyFork(l *liar) {
	var b *chain.Chain // nil until it is made
	l.acts = func() {
		// once this peer has the state of the tip
		if v := l.driver.View(); b == nil && v.IsMember && v.Synced && v.Applied == v.Tip.Height && v.Tip.Slot > 0 {
			b = l.fork(v)
		}
		if b == nil {
			return
		}
		l.say(wire.Alive{
			Branch: b.Branch(), Height: b.Height(), Tip: b.TipHash(), Work: claimedWork, Applied: b.Height(),
			Slot: b.Tip().Slot, Synced: true, Contributes: true,
		}, "")
		l.did("a branch of work %d", uint64(claimedWork))
	}
	l.hears = func(_ slot.PeerID, m wire.Message) bool {
		if need, ok := m.Body.(wire.Need); ok && b != nil {
			for _, c := range b.Commits()[min(max(need.From, 1), b.Height())-1:] {
				l.say(c, m.From)
			}
		}
		return true
	}
	l.says = func(_ slot.PeerID, m wire.Message) bool {
		_, alive := m.Body.(wire.Alive) // it would name the branch that the others are on
		return !alive || b == nil
	}
}

// fork is the own chain with a fork of its tip. All is as the rules want it, but for the signers of
// the fork, who are too few; nil: the chain has begun before this peer.
func (l *liar) fork(v membership.View) *chain.Chain {
	b := chain.New(l.rules, slot.Root{})
	for h := uint64(1); h <= v.Tip.Height; h++ {
		c, ok := l.driver.Record(h)
		if !ok {
			return nil
		}
		b.Push(c)
	}
	l.forkAlone(b, l.driver.Incarnation(), v.StateRoot)
	return b
}

// forkAlone appends a fork with this peer's signature.
func (l *liar) forkAlone(b *chain.Chain, inc slot.Incarnation, state slot.Root) {
	r := b.SettleFork(slot.Record{Slot: b.Tip().Slot}, chain.Turnover{
		Listed: []slot.Member{b.Listing(l.self, inc)},
	})
	at := b.Next()
	r.Run, r.Height, r.Prev, r.StateRoot, r.Work = l.run, at.Height, at.Prev, state, b.Tip().Work
	v := slot.Vote{Ref: at, Hash: r.Hash()}
	// the key is there
	sig, _ := l.signer.Sign(slot.SignedBytes(slot.TypeFork, l.run, l.self, inc, v.Append(nil)))
	b.Push(wire.Commit{Record: r, Certificate: slot.Certificate{
		Vote: v, Signatures: []slot.Signature{{Peer: l.self, Sig: sig}},
	}})
}
