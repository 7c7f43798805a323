package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A member that leads a ballot has two records certified in it: it signs both, and each half of
// the others sees one. No fork record tells the branches apart. The halves find each other all the
// same, agree on one branch, and put the liar out by the two certificates.
func TestTwoCertificatesAtOneHeight(t *testing.T) {
	l := labOf(t, "ABCDE")
	leader := l.leader()
	honest := l.others(leader)
	c := leader.m.chain
	sides := [2][]*labPeer{honest[:2], honest[2:]}
	for i, side := range sides {
		gone := sides[1-i][0] // the one that the record drops
		r := slot.Record{
			Run: l.rules.Run, Height: c.Height() + 1, Kind: slot.Members, Prev: c.TipHash(), Slot: c.Tip().Slot,
			StateRoot: leader.m.model.state.root, Work: c.Tip().Work,
			Members: slices.DeleteFunc(
				slices.Clone(c.Electorate()),
				func(e slot.Member) bool { return e.Peer == gone.id },
			),
		}
		v, sigs := slot.Vote{Ref: c.Next(), Hash: r.Hash()}, map[slot.PeerID][]byte{}
		for _, p := range append([]*labPeer{leader}, side...) {
			sigs[p.id] = labSigned(p, wire.Vote{Vote: v}).Sig
		}
		for _, p := range side {
			// as if it had voted
			p.m.pledges.open.Vote = &wire.EntryVote{Ref: v.Ref, Locked: wire.Locked{Record: r}}
			if err := p.step(labSigned(leader, wire.Commit{Record: r, Certificate: certificate(v, sigs)})); err != nil {
				t.Fatal(err)
			}
		}
	}
	leader.crash()
	agree := func() bool {
		first := honest[0].m
		for _, p := range honest {
			if p.m.chain.TipHash() != first.chain.TipHash() ||
				!p.m.evidence.evicted(memberKey{leader.id, leader.inc}) ||
				slot.Find(p.m.chain.Electorate(), p.id) < 0 ||
				slot.Find(p.m.chain.Electorate(), leader.id) >= 0 {
				return false
			}
		}
		return true
	}
	l.awaits(t, "one branch stays", agree)
}

// A peer that lost its log founds or forks again from the same record, in the first attempt of its
// new life. The two certificates are of two incarnations, and convict neither.
func TestForksOfTwoLivesAreNoEvidence(t *testing.T) {
	l := labOf(t, "AB")
	a := l.peers[0].m
	for _, height := range []uint64{0, a.chain.Height()} {
		first, second := newForgerAs(l, a.chain, height, 1), newForgerAs(l, a.chain, height, 2)
		a.evidence.compare(first.chain.Commits()[height], second.chain.Commits()[height], a.chain.At(height).Members)
		if e := a.evidence.evictions; len(e) > 0 {
			t.Errorf("after height %d: evicts %v", height, e[0].memberKey)
		}
	}
}

// A peer that is behind gets no answer for a while, and gathers the chain from its members as if it
// were another branch, in vain: then it doubts them. When its questions are answered again it does
// not wait for the end of its doubts.
func TestDoubtsDoNotDelayCatchingUp(t *testing.T) {
	l := agedLab(t, 4)
	c := l.peers[2]
	c.crash()
	l.rests(10 * time.Second)
	l.filters = []*labFilter{{from: c.name, kind: "need", left: -1}}
	c.start()
	l.connect()
	l.rests(24 * l.timing.Retry)
	if n := len(c.m.doubts.peers); n != 2 {
		t.Fatalf("doubts %d peers", n)
	}
	l.filters = nil
	l.within(t, 2*l.timing.Retry, "it catches up", func() bool {
		return c.m.chain.Height()+1 >= l.peers[0].m.chain.Height()
	})
}
