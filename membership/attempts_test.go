package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A liar that is one of those who could fork names the numbers of ever higher attempts, while
// nothing is wrong: 70,000 drafts used to bring them to their end, and no fork got a second
// signature any more. Once two of four are lost the others fork, though the liar does not help.
func TestAttemptsDoNotRunOut(t *testing.T) {
	t.Parallel()
	l := forkingLab(t, 4, 2*time.Second)
	a, b, liar := l.peers[0], l.peers[1], l.peers[3]
	for _, p := range l.peers[2:] {
		p.crash()
		p.gone = true
	}
	l.peers = l.peers[:2]
	l.rests(time.Second)
	var members []slot.Member
	for _, e := range a.m.chain.Electorate() {
		if e.Peer == a.id || e.Peer == b.id || e.Peer == liar.id {
			members = append(members, e)
		}
	}
	r := a.m.chain.SettleFork(slot.Record{
		Run: l.rules.Run, Height: a.m.chain.Height() + 1, Kind: slot.Fork, Prev: a.m.chain.TipHash(),
		Slot: a.m.chain.Tip().Slot, StateRoot: a.m.model.state.root, Work: a.m.chain.Tip().Work,
	}, chain.Turnover{Listed: members})
	for range 70_000 {
		f := &a.m.fork.forking
		draft := wire.ForkDraft{Ballot: f.next + maxAttemptStep - 1, Record: r}
		_ = a.m.fork.onDraft(labSigned(liar, wire.ForkDraft{}), draft, false)
	}
	_ = a.m.fork.onDraft(labSigned(liar, wire.ForkDraft{}), wire.ForkDraft{Ballot: 1<<32 - 1, Record: r}, false)
	if n := a.m.fork.next; n > 2*maxAttemptStep {
		t.Errorf("the next attempt is number %d", n)
	}
	l.awaits(t, "a fork", func() bool {
		return b.m.chain.Tip().Kind == slot.Fork || len(b.m.chain.Electorate()) == 2
	})
}

// Two honest peers that a liar has led apart hear of each other's numbers, and sign.
func TestAttemptsComeTogether(t *testing.T) {
	const pause = time.Second
	var a, b attempts
	for i := range 100 { // the liar tells a alone
		a.hear(a.next+maxAttemptStep-1, time.Duration(i)*pause, pause)
	}
	if a.next != 100*maxAttemptStep {
		t.Fatalf("a takes numbers from %d on", a.next)
	}
	own := a.next
	for i := range 101 {
		if b.hear(own, time.Duration(i)*pause, pause) {
			return
		}
		if b.hear(1<<31, time.Duration(i)*pause, pause) {
			t.Fatal("a number from the upper half is taken")
		}
	}
	t.Errorf("after 100 pauses b takes numbers from %d on, and does not sign %d", b.next, own)
}
