package membership

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestACommitByHashIsNoDeadEnd: a leader keeps its draft from one peer, sends every COMMIT by hash,
// and answers the question for the record in the same way. That peer asks another one.
func TestACommitByHashIsNoDeadEnd(t *testing.T) {
	l := labOf(t, "ABC")
	leader := l.leader()
	victim := l.others(leader)[0]
	leader.curt = true
	l.filters = []*labFilter{{from: leader.name, to: victim.name, kind: "draft", left: -1}}
	height := victim.m.chain.Next().Height
	for _, p := range l.peers {
		p.offer(p.m.chain.OpenSlot())
	}
	l.within(t, 4*labTiming.Retry, "a peer that never saw the draft gets the record", func() bool {
		return victim.m.chain.Height() >= height
	})
	if victim.m.pledges.find(victim.m.chain.Tip()).Have != nil {
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

// falsified is a COMMIT's certificate with the same signers, none of whom has signed it so.
func falsified(c slot.Certificate) slot.Certificate {
	c.Signatures = slices.Clone(c.Signatures)
	for i, s := range c.Signatures {
		sig := slices.Clone(s.Sig)
		sig[0] ^= 1
		c.Signatures[i].Sig = sig
	}
	return c
}

// Names of a quorum decide nothing. A COMMIT that has them, and not their signatures, is refused:
// by hash where the record is held, with its HAVE, and whole, with the record in it.
func TestFalseSignaturesDecideNothing(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("byzantine=%v whole=%v", byzantine, whole), func(t *testing.T) {
				rules := labRules()
				rules.Byzantine, rules.StartPeers = byzantine, 4
				l := connectedLab(t, rules, labTiming, "ABCD")
				l.awaits(t, "three slots", func() bool { return l.slots() >= 3 })
				p := l.peer("A")
				l.filters = []*labFilter{{to: "A", kind: "commit", left: -1, hold: true}}
				var next labMessage
				l.awaits(t, "there is such a COMMIT", func() bool {
					for _, m := range l.held {
						c := m.msg.Body.(wire.Commit)
						if c.Certificate.Height == p.m.chain.Next().Height && c.ByHash() != whole {
							next = m
							return true
						}
					}
					return false
				})
				from, c := l.peer(labName(next.msg.From)), next.msg.Body.(wire.Commit)
				height, known := p.m.chain.Height(), l.count("A", EventCommitted)
				if _, held := p.m.pledges.signed(c.Certificate.Hash); !whole && !held {
					t.Fatal("the record is not held")
				}
				lie := c
				lie.Certificate = falsified(c.Certificate)
				if err := p.step(labSigned(from, lie)); !errors.Is(err, chain.ErrInvalid) {
					t.Errorf("false signatures: %v", err)
				}
				if p.m.chain.Height() != height || l.count("A", EventCommitted) != known {
					t.Error("what nobody has signed is decided")
				}
				if err := p.step(labSigned(from, c)); err != nil || p.m.chain.Height() != height+1 {
					t.Errorf("the true one: %v", err)
				}
			})
		}
	}
}
