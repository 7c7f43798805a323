package membership

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// forkingLab is a run of n members that may lie, on one chain, all with a seat. Seats grow to 4 and
// then to 7, so for 5 two of 7 are lost.
func forkingLab(t *testing.T, n int, forkAfter time.Duration, change ...func(*chain.Rules)) *lab {
	first := n
	if n > 4 {
		first = n + (10-n)%3
	}
	rules, timing := labRules(), labTiming
	rules.Byzantine, rules.StartPeers, timing.ForkAfter = true, first, forkAfter
	rules.AuditSamples = 8
	for _, c := range change {
		c(&rules)
	}
	l := newLab(t, rules, timing)
	for i := range first {
		l.add(string(rune('A' + i)))
	}
	l.connect()
	seats := func(n int) {
		t.Helper()
		l.within(t, 2*time.Minute, "slot 4", func() bool {
			return !slices.ContainsFunc(l.peers, func(p *labPeer) bool {
				return len(p.m.chain.Electorate()) != n || p.m.View().AppliedSlot < 4
			})
		})
	}
	seats(first)
	for _, p := range l.peers[n:] {
		p.crash()
		p.gone = true
	}
	l.peers = l.peers[:n]
	seats(n)
	return l
}

// forkAlone forks the forger's tip as the rules want it, but for the signers: the forger alone
// signs, and those whose signatures it has. Then it adds steps of a weight.
func (f *forger) forkAlone(weight uint64, steps int) {
	c := f.chain
	var signers []slot.Member
	for _, p := range append([]*labPeer{f.labPeer}, f.by...) {
		signers = append(signers, c.Members()[slot.Find(c.Members(), p.id)])
	}
	slices.SortFunc(signers, func(a, b slot.Member) int { return cmpPeer(a.Peer, b.Peer) })
	r := c.SettleFork(slot.Record{Slot: c.Tip().Slot}, chain.Turnover{Listed: signers})
	r.Work = c.Tip().Work
	c.Push(f.certified(r))
	for range steps {
		o := []slot.Offer{{
			Peer: f.id, Slot: c.OpenSlot(), Seq: c.SpentSeq(f.id) + 1, Base: c.OpenSlot() - 1, Weight: weight,
		}}
		f.add(c.Settle(slot.Record{
			Kind: slot.Step, Height: c.Height() + 1, Slot: c.OpenSlot(), Work: c.WorkAfter(slot.Step, o),
			Contributions: o,
			Segments:      []slot.Segment{{Range: slot.Range{End: labElements}, Contributors: slot.Bitmap{1}}},
		}, chain.Turnover{Listed: c.Members()}))
	}
}

// One of five electors forks by itself, and claims 2^50 of work: an older record while the others
// decide, and the newest one while too few of them are there. Nothing else is wrong with the fork,
// and nothing caps weights here: only the rule that a fork takes more than half of the electors
// refuses it. It moves nobody, and each peer names it. (BYZANTINE a7, m17)
func TestAHeavyForkByOneOfFive(t *testing.T) {
	for _, paused := range []bool{false, true} {
		l := forkingLab(t, 5, time.Minute, func(r *chain.Rules) { r.MaxWeight = 0 })
		honest, liar, back := l.peers[:4], l.peers[4], uint64(2)
		l.run(time.Minute, func() bool {
			c := honest[0].m.chain
			return len(c.At(c.Height()-back).Electors()) == 5
		})
		liar.crash()
		liar.gone = true
		if paused {
			honest, back = l.peers[:2], 0
			l.peers[2].crash()
			l.peers[3].crash()
			l.rests(10 * time.Second)
		}
		at := l.peers[0].m.chain.UpTo(l.peers[0].m.chain.Height())
		if v := honest[0].m.View(); v.TooFew != paused {
			t.Errorf("paused %v: too few %v", paused, v.TooFew)
		}
		f := &forger{labPeer: liar, chain: at.UpTo(at.Height() - back)}
		f.forkAlone(1<<50, 2)
		f.serve(5*time.Second, nil)
		for _, p := range honest {
			if !p.m.chain.Has(at.Height(), at.TipHash()) || p.m.chain.Tip().Kind == slot.Fork || p.m.switches > 0 ||
				!p.m.doubts.has(liar.id) || !paused && p.m.chain.Tip().Slot < at.Tip().Slot+5 {
				t.Errorf("paused %v: %s moved %d times, doubts %v\n%s", paused, p.name, p.m.switches,
					p.m.doubts.peers, l.show())
			}
			if l.count(p.name, EventRefused) == 0 {
				t.Errorf("paused %v: %s does not say why", paused, p.name)
			}
		}
	}
}

// TestAForkByFewIsFound plants a fork by one of five that counts as one by three (m17): the liar
// has the signatures of two others, which never gave them. It is the fork of the test above
// otherwise, and moves the two that are left of the five. So nothing but the rule keeps them where
// they are.
func TestAForkByFewIsFound(t *testing.T) {
	for _, planted := range []bool{false, true} {
		l := forkingLab(t, 5, time.Minute, func(r *chain.Rules) { r.MaxWeight = 0 })
		honest, liar := l.peers[:2], l.peers[4]
		f := &forger{labPeer: liar}
		if planted {
			f.by = l.peers[2:4]
		}
		for _, p := range l.peers[2:] {
			p.crash()
			p.gone = true
		}
		l.rests(10 * time.Second)
		f.chain = honest[0].m.chain.UpTo(honest[0].m.chain.Height())
		f.forkAlone(1<<50, 2)
		f.serve(5*time.Second, nil)
		for _, p := range honest {
			if moved := p.m.chain.Has(f.chain.Height(), f.chain.TipHash()); moved != planted {
				t.Errorf("planted %v: %s moved %v, doubts %v\n%s\n%s", planted, p.name, moved, p.m.doubts.peers,
					l.show(), strings.Join(l.log[max(0, len(l.log)-10):], "\n"))
			}
		}
	}
}

// Three of five have forked, and gone on. A certificate of the record that they forked shows up: it
// comes first, however little work is behind it. When more than 64 records are on the branch since,
// an operator decides, who is told how.
func TestACertificateAfterAFork(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		l := forkingLab(t, 5, 2*time.Second)
		forked := l.peers[:3]
		for _, p := range l.peers[3:] {
			p.crash()
			p.gone = true
		}
		l.awaits(t, "the chain is provisional", func() bool {
			_, is := l.peers[0].m.chain.Provisional()
			return is
		})
		own := l.peers[0].m.chain
		p, _ := own.Provisional()
		f := &forger{labPeer: l.peers[4], chain: own.UpTo(p.Height), by: l.peers[1:]}
		f.add(slot.Record{
			Kind: slot.Members, Slot: f.chain.Tip().Slot, Members: f.chain.Members(), Work: f.chain.Tip().Work,
		})
		if late {
			l.run(time.Minute, func() bool { return l.peers[0].m.chain.Height()-p.Height > chain.MaxSiblingAge+1 })
		}
		f.serve(4*time.Second, nil)
		for _, q := range forked {
			moved := q.m.chain.Has(f.chain.Height(), f.chain.TipHash())
			if moved == late || l.count(q.name, EventRefused) != map[bool]int{true: 1}[late] {
				t.Errorf("late %v: %s moved %v, refused it %d times\n%s", late, q.name, moved,
					l.count(q.name, EventRefused), l.show())
			}
		}
	}
}

// Three of seven sign two records at one height, which is more than the run withstands: each pair
// of the others has another one certified. All of them choose the one of the lower hash, evict
// those of the three that it lists, and go on without them at once.
func TestTwoCertificatesOfLyingElectors(t *testing.T) {
	l := forkingLab(t, 7, time.Hour)
	liars, honest := l.peers[:3], l.peers[3:]
	c, chosen, listed := liars[0].m.chain, slot.Root{0xff}, 0
	for i, side := range [][]*labPeer{honest[:2], honest[2:]} {
		r := slot.Record{
			Run: l.rules.Run, Height: c.Height() + 1, Kind: slot.Members, Prev: c.TipHash(), Slot: c.Tip().Slot,
			StateRoot: liars[0].m.model.state.root, Work: c.Tip().Work, Members: c.Members(),
		}
		if i == 1 {
			r.Members = slices.DeleteFunc(slices.Clone(r.Members),
				func(e slot.Member) bool { return e.Peer == liars[0].id })
		}
		v, sigs := slot.Vote{Ref: c.Next(), Hash: r.Hash()}, map[slot.PeerID][]byte{}
		if slices.Compare(v.Hash[:], chosen[:]) < 0 {
			chosen, listed = v.Hash, 3-i
		}
		for _, p := range slices.Concat(liars, side) {
			sigs[p.id] = labSigned(p, wire.Vote{Vote: v}).Sig
		}
		for _, p := range side {
			// as if it had voted
			p.m.pledges.open.Vote = &wire.EntryVote{Ref: v.Ref, Locked: wire.Locked{Record: r}}
			commit := wire.Commit{Record: r, Certificate: certificate(v, sigs)}
			if err := p.step(labSigned(liars[0], commit)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range liars {
		p.crash()
		p.gone = true
	}
	l.awaits(t, "they go on", func() bool {
		return !slices.ContainsFunc(honest, func(p *labPeer) bool {
			return p.m.chain.Hash(c.Height()+1) != chosen ||
				len(p.m.chain.Tip().Evicted) != listed || p.m.chain.Tip().Slot < c.Tip().Slot+3
		})
	})
}

// A fork evicts those that are convicted, and the signers see to it that it evicts nobody else.
func TestAForkEvictsNobodyWithoutReason(t *testing.T) {
	l := forkingLab(t, 5, time.Hour)
	a, b := l.peers[0], l.peers[1]
	for _, p := range l.peers[3:] {
		p.crash()
	}
	l.rests(10 * time.Second)
	a.m.cfg.Timing.ForkAfter = time.Second
	draft := func(evicted ...slot.PeerID) wire.ForkDraft {
		r := b.m.fork.draft(nil)
		return wire.ForkDraft{Record: b.m.chain.SettleFork(slot.Record{
			Run: r.Run, Height: r.Height, Prev: r.Prev, Slot: r.Slot, StateRoot: r.StateRoot,
			Work: b.m.chain.Tip().Work,
		}, chain.Turnover{Listed: b.m.chain.Electorate()[:3], Evicted: evicted})}
	}
	if err := a.step(labSigned(b, draft(l.peers[4].id))); !errors.Is(err, ErrStale) || a.m.fork.signed != nil {
		t.Errorf("a fork that evicts E: %v", err)
	}
	if err := a.step(labSigned(b, draft())); err != nil || a.m.fork.signed == nil {
		t.Errorf("a fork that evicts nobody: %v", err)
	}
}
