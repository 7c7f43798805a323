package hostile

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

const (
	claimedWeight = 1 << 50 // of each contribution to the branch, or as much as the spec allows
	branchSlots   = 4       // of the branch
)

// heavyFork forks the run alone, while the others go on, and claims that it trained more than all
// of them together.
func heavyFork(l *liar) habit {
	f := &solitary{liar: l}
	return habit{
		acts: f.announce,
		hears: func(m wire.Message) bool {
			if need, ok := m.Body.(wire.Need); ok && f.branch != nil {
				f.show(m.From, need.From)
			}
			return true
		},
		says: func(_ slot.PeerID, m wire.Message) bool {
			_, alive := m.Body.(wire.Alive) // it would name the branch that the others are on
			return !alive || f.branch == nil
		},
	}
}

// solitary is a branch that its author decides alone.
type solitary struct {
	*liar
	branch *chain.Chain // nil until it is made
}

// announce makes the branch, once this peer has the state of the tip, and claims it from then on.
func (f *solitary) announce() {
	v := f.driver.View()
	if f.branch == nil && v.IsMember && v.Synced && v.Applied == v.Tip.Height && v.Tip.Slot > 0 {
		f.make(v)
	}
	if f.branch == nil {
		return
	}
	b := f.branch
	f.gossip(wire.Alive{
		Branch: b.Branch(), Height: b.Height(), Tip: b.TipHash(), Work: b.Tip().Work, Applied: b.Height(), Synced: true,
		Slot: b.Tip().Slot, Contributes: true,
	})
	f.did("a branch of work %d, %d slots long", b.Tip().Work, branchSlots)
}

// make makes a branch from the tip of the own chain.
func (f *solitary) make(v membership.View) {
	b := chain.New(f.rules, slot.Root{})
	for h := uint64(1); h <= v.Tip.Height; h++ {
		c, ok := f.driver.Record(h)
		if !ok {
			return
		}
		b.Push(c)
	}
	f.grow(b, f.driver.Incarnation(), v.StateRoot)
	f.branch = b
}

// grow forks the tip alone and appends steps. All is as the rules want it, but for the signers of
// the fork, who are too few. Nobody can check the states that the records name.
func (f *solitary) grow(b *chain.Chain, inc slot.Incarnation, root slot.Root) {
	fork := b.SettleFork(slot.Record{Slot: b.Tip().Slot}, chain.Turnover{
		Listed: []slot.Member{b.Listing(f.self, inc)},
	})
	fork.Work = b.WorkOfFork(fork.Members)
	f.append(b, inc, fork, root)
	for range branchSlots {
		if b.Ended() {
			break
		}
		s := b.OpenSlot()
		weight := uint64(claimedWeight)
		if most := f.rules.MaxWeight; most > 0 {
			weight = min(weight, most)
		}
		offers := []slot.Offer{{
			Peer: f.self, Slot: s, Seq: b.SpentSeq(f.self) + 1, Base: s - 1, Weight: weight,
			Root: slot.Hash(root[:]),
		}}
		everybody := slot.NewBitmap(1)
		everybody.Set(0)
		f.append(b, inc, b.Settle(slot.Record{
			Kind: slot.Step, Slot: s, Height: b.Height() + 1, Fragment: f.rules.Fragment(s), Usual: b.UsualWeight(),
			Contributions: offers,
			Segments: []slot.Segment{{
				Range: slot.Range{End: f.rules.Elements(s)}, Contributors: everybody, Root: slot.Hash(root[:]),
			}},
			Work: b.WorkAfter(slot.Step, offers),
		}, chain.Turnover{Listed: b.Members()}), root)
		root = slot.Hash(root[:])
	}
}

// append certifies a record with this peer's signature and appends it.
func (f *solitary) append(b *chain.Chain, inc slot.Incarnation, r slot.Record, state slot.Root) {
	at := b.Next()
	r.Run, r.Height, r.Prev, r.StateRoot = f.run, at.Height, at.Prev, state
	t := slot.TypeVote
	if r.Kind == slot.Fork {
		t = slot.TypeFork
	}
	v := slot.Vote{Ref: at, Hash: r.Hash()}
	sig, err := f.signer.Sign(slot.SignedBytes(t, f.run, f.self, inc, v.Append(nil)))
	if err != nil {
		return
	}
	b.Push(wire.Commit{Record: r, Certificate: slot.Certificate{
		Vote: v, Signatures: []slot.Signature{{Peer: f.self, Sig: sig}},
	}})
}

// show answers a question for records with those of the branch.
func (f *solitary) show(to slot.PeerID, from uint64) {
	const atOnce = 16
	commits := f.branch.Commits()
	for h := max(from, 1); h <= min(from+atOnce-1, uint64(len(commits))); h++ {
		f.say(commits[h-1], to)
	}
}
