package membership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func (l *lab) eventOf(kind EventKind, by string) bool {
	return slices.ContainsFunc(l.log, func(line string) bool {
		f := strings.Fields(line)
		return f[0] == by && f[1] == string(kind)
	})
}

// An old copy of the data directory is put back: the chain has votes and contributions of this
// incarnation that the copy does not know. A disk that is only behind, because the peer was away,
// is none.
func TestAnOldDataDirectoryIsNoticed(t *testing.T) {
	for name, old := range map[string]bool{"an old copy": true, "only away": false} {
		t.Run(name, func(t *testing.T) {
			l := connectedLab(t, labRules(), labTiming, "ABC")
			at := func(s uint64) {
				l.awaits(t, "slot s", func() bool { return l.peers[0].m.View().AppliedSlot >= s })
			}
			at(3)
			c := l.peers[2]
			copied := c.store.Restart() // of what is on disk now
			c.store = copied.Restart()
			if old {
				at(6)
			}
			c.crash()
			if old {
				c.store = copied.Restart()
				for h := range c.states { // the states are of the same day
					if h > uint64(len(recordsOf(c.store))) {
						delete(c.states, h)
					}
				}
			}
			at(9)
			c.start()
			l.connect()
			at(14)
			if l.eventOf(EventCloned, "C") != old {
				t.Errorf("noticed %v\n%s", !old, strings.Join(l.log[max(0, len(l.log)-20):], "\n"))
			}
		})
	}
}

// Another process speaks under this peer's identity. What this peer's earlier life said, repeated
// by whomever, proves nothing; what is about a record that is younger than this life does.
func TestACloneIsNoticed(t *testing.T) {
	l := labOf(t, "AB")
	a, b := l.peers[0], l.peers[1]
	l.rests(time.Second)
	says := func(height uint64) wire.Message {
		c := a.m.chain
		alive := wire.Alive{
			Branch: c.Branch(), Height: height, Tip: c.Hash(height), Work: c.At(height).Work, Synced: true,
			Applied: height,
		}
		return wire.Message{From: a.id, Incarnation: a.inc + 1, Body: alive}
	}
	told := a.m.chain.Height()
	since := a.m.chain.Listing(a.id, a.inc).Since
	a.report(ReportClone{says(since - 1)})
	if a.m.clones.own != "" {
		t.Fatal("an earlier life is taken for a clone")
	}
	a.report(ReportClone{wire.Message{From: a.id, Incarnation: a.inc, Body: says(told).Body}})
	if a.m.clones.own != "" {
		t.Error("its own announcement is taken for a clone's")
	}
	a.report(ReportClone{says(told)})
	a.report(ReportClone{says(told)})
	if a.m.clones.own == "" || !l.eventOf(EventCloned, "A") {
		t.Error("a clone is not noticed")
	}
	_ = b.step(says(told))
	if l.eventOf(EventCloned, "B") {
		t.Error("a peer calls another one cloned")
	}
}

// Announcements of two incarnations of one peer may come in any order, and long after they were
// made: a peer that lost its log comes back while what its earlier life said is on its way. The
// others name nobody.
func TestLateAnnouncementsNameNobody(t *testing.T) {
	l := labOf(t, "ABC")
	a, b := l.peers[0], l.peers[1]
	train(true, l.peers...)
	alive := func(inc slot.Incarnation, height uint64) wire.Message {
		c := b.m.chain
		return wire.Message{From: a.id, Incarnation: inc, Body: wire.Alive{
			Branch: c.Branch(), Height: height, Tip: c.Hash(height), Work: c.At(height).Work, Synced: true,
			Applied: height,
		}}
	}
	first := b.m.chain.Height()
	_ = b.step(alive(a.inc+1, first))
	l.awaits(t, "b goes on", func() bool { return b.m.chain.Height() > first+4 })
	for height := first; height <= b.m.chain.Height(); height++ {
		_ = b.step(alive(a.inc+1, height))
		_ = b.step(alive(a.inc, height))
	}
	if l.eventOf(EventCloned, "B") {
		t.Errorf("it names a peer\n%s", strings.Join(l.log, "\n"))
	}
}

// What an earlier life said of a record is no clone's word because this life hears of that record
// late: it came back among peers that were behind, or on a branch that it gave up since.
func TestAnEarlierLifeIsNoClone(t *testing.T) {
	l := connectedLab(t, labRules(), labTiming, "ABC")
	c := l.peers[2]
	l.awaits(t, "slot 8, and all are back", func() bool {
		return c.m.View().AppliedSlot >= 8 && len(c.m.chain.Electorate()) == 3
	})
	known := c.m.chain
	life := wire.Message{From: c.id, Incarnation: c.inc, Body: wire.Alive{
		Branch: known.Branch(), Height: known.Height(), Tip: known.TipHash(), Work: known.Tip().Work, Synced: true,
		Applied: known.Height(),
	}}
	behind := known.Height() - 3
	state := c.states[behind-1]
	c.crash()
	c.format()
	l.filters = []*labFilter{{to: "C", left: -1}}
	c.start()
	l.connect()
	for _, k := range known.Commits()[:behind] {
		_ = c.step(labSigned(l.peers[0], k)) // it meets a peer that is behind
	}
	c.report(ReportApplied{Height: behind - 1, StateRoot: state.root, Record: state.record})
	l.rests(3 * time.Second)
	if c.m.chain.Height() != behind || !c.m.roster.wantsIn() {
		t.Fatal(l.show())
	}
	for _, k := range known.Commits() {
		_ = c.step(labSigned(l.peers[0], k))
	}
	c.report(ReportClone{life})
	if c.m.clones.own != "" {
		t.Error("an earlier life is taken for a clone")
	}
}

// A record that was re-proposed has certificates of several ballots. A peer that gave the record up
// with its branch under one of them, and meets it again under another that has its own signature,
// too, is no clone.
func TestAnotherCertificateIsNoClone(t *testing.T) {
	l := labOf(t, "ABC")
	a := l.peers[0]
	c := a.m.chain.Commits()[a.m.chain.Height()-1]
	a.m.pledges.keepDecided(c)
	again := c
	again.Certificate.Ballot += 3
	again.Certificate.Signatures = []slot.Signature{{Peer: a.id}}
	a.m.clones.checkOwnSignatures(again, a.m.chain, a.m.pledges.find(again.Record), a.m.own.offerSeq)
	if a.m.clones.own != "" {
		t.Error("a second certificate of a known record is taken for a clone's")
	}
	clear(a.m.pledges.kept)
	again.Record.Work++
	a.m.clones.checkOwnSignatures(again, a.m.chain, a.m.pledges.find(again.Record), a.m.own.offerSeq)
	if a.m.clones.own == "" {
		t.Error("a certificate of another record is not noticed")
	}
}

// A leader that lies has another record certified in a later ballot than the one before, each with
// the vote of one honest member. That member adopts the first, and moves to the branch of the
// second: its earlier vote was forgotten when its height was decided, and it is no clone.
func TestTwoBallotsDecidedAreNoClone(t *testing.T) {
	l := labOf(t, "ABC")
	a, liar := l.peers[0], l.peers[1]
	c := a.m.chain.UpTo(a.m.chain.Height())
	certified := func(ballot uint32, drop string) wire.Commit {
		r := slot.Record{
			Run: l.rules.Run, Height: c.Height() + 1, Kind: slot.Members, Prev: c.TipHash(), Slot: c.Tip().Slot,
			StateRoot: a.m.model.state.root, Work: c.Tip().Work,
			Members: slices.DeleteFunc(
				slices.Clone(c.Electorate()),
				func(e slot.Member) bool { return labName(e.Peer) == drop },
			),
		}
		v := slot.Vote{Ref: c.Next(), Hash: r.Hash()}
		v.Ballot = ballot
		// as if it had voted
		a.m.pledges.open.Vote = &wire.EntryVote{Ref: v.Ref, Locked: wire.Locked{Record: r}}
		return wire.Commit{Record: r, Certificate: certificate(v, map[slot.PeerID][]byte{
			a.id: labSigned(a, wire.Vote{Vote: v}).Sig, liar.id: labSigned(liar, wire.Vote{Vote: v}).Sig,
		})}
	}
	first, second := certified(0, "C"), certified(1, "")
	if err := a.step(labSigned(liar, first)); err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(second, labVerify); err != nil {
		t.Fatal(err)
	}
	a.m.switchTo(&branch{chain: c, from: liar.id}, c.Height()-1)
	if a.m.chain.TipHash() != second.Record.Hash() || a.m.clones.own != "" {
		t.Errorf("at height %d it takes itself for cloned: %s", a.m.chain.Height(), a.m.clones.own)
	}
}
