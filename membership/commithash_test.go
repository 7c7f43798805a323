package membership

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestACommitByHashIsNoDeadEnd: a leader keeps its draft from one peer, sends every COMMIT by hash,
// and answers the question for the record in the same way. That peer asks another one.
func TestACommitByHashIsNoDeadEnd(t *testing.T) {
	l := labOf(t, "ABC")
	leader := l.peer(labName(l.peers[0].m.open.leader(0).Peer))
	victim := l.peers[0]
	if victim == leader {
		victim = l.peers[1]
	}
	leader.curt = true
	l.filters = []*labFilter{{from: leader.name, to: victim.name, kind: "draft", left: -1}}
	height := victim.m.chain.Next().Height
	for _, p := range l.peers {
		p.offer(p.m.chain.OpenSlot())
	}
	if !l.run(4*labTiming.Retry, func() bool { return victim.m.chain.Height() >= height }) {
		t.Fatalf("a peer that never saw the draft does not get the record\n%s", l.show())
	}
	if victim.m.pledges.of(victim.m.chain.Tip()).Have != nil {
		t.Error("it has seen the draft")
	}
}

// TestCommitsByHash is what a peer says to a COMMIT that names its record only, and whom it asks.
func TestCommitsByHash(t *testing.T) {
	l := labOf(t, "ABC")
	p := l.peers[0]
	if p.m.open.leader(0).Peer == p.id {
		p = l.peers[1]
	}
	leader := l.peer(labName(p.m.open.leader(0).Peer))
	other := l.peers[2]
	if other == leader {
		other = l.peers[1]
	}
	next := p.m.chain.Next()
	held := stepRecord(p.m, "AB")
	p.m.pledges.open.Have = &wire.EntryHave{Ref: next, Drafted: wire.Drafted{Record: held}}
	at := func(height uint64, prev, hash slot.Root) slot.Vote {
		return slot.Vote{Ref: slot.Ref{Height: height, Prev: prev}, Hash: hash}
	}
	for _, c := range []struct {
		name string
		from *labPeer
		of   slot.Vote
		want error
		asks int
	}{
		{
			"of a record that is held, without a quorum", leader, at(next.Height, next.Prev, held.Hash()),
			chain.ErrInvalid, 0,
		},
		{"of a known height", leader, at(next.Height-1, next.Prev, slot.Root{1}), ErrStale, 0},
		{"of another branch", leader, at(next.Height, slot.Root{1}, slot.Root{1}), ErrStale, 0},
		{"of no leader", other, at(next.Height, next.Prev, slot.Root{1}), ErrSender, 0},
		{"of a record that is not held", leader, at(next.Height, next.Prev, slot.Root{1}), ErrLacks, 1},
		{"of it once more", leader, at(next.Height, next.Prev, slot.Root{1}), ErrLacks, 0},
		{"of a later height", other, at(next.Height+1, slot.Root{1}, slot.Root{1}), ErrStale, 0},
	} {
		body := wire.Commit{Certificate: slot.Certificate{Vote: c.of}}
		if err := p.m.Step(l.now, labSigned(c.from, body)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		asks := 0
		for _, e := range p.m.Ready().Send {
			if _, need := e.Body.(wire.Need); need {
				asks++
			}
		}
		if asks != c.asks {
			t.Errorf("%s: %d questions", c.name, asks)
		}
	}
}
