package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// dear is a step record with as many contributions and segments as there may be, each of another
// set, by peers that do not exist: reckoning what its members are credited with takes seconds.
func dear(p *labPeer) slot.Record {
	c := p.m.chain
	tip := c.Tip()
	r := slot.Record{
		Run: p.lab.rules.Run, Height: c.Height() + 1, Kind: slot.Step, Prev: c.TipHash(), Slot: tip.Slot + 1,
		Members: slices.Clone(tip.Members), Absent: tip.Absent, Usual: c.UsualWeight(),
	}
	for i := range slot.MaxMembers {
		r.Contributions = append(r.Contributions, slot.Offer{
			Peer: slot.PeerID(fmt.Sprintf("%04d", i)), Slot: r.Slot, Weight: uint64(1 + i*7919%1024),
			NormSq: float64(1 + i*104729%1024),
		})
	}
	for i := range slot.MaxSegments {
		set := slot.NewBitmap(slot.MaxMembers)
		for j := range set {
			set[j] = 0xff
		}
		set[0], set[1] = byte(i), byte(i>>8)
		r.Segments = append(r.Segments, slot.Segment{
			Range: slot.Range{Begin: uint64(i), End: uint64(i + 1)}, Contributors: set,
		})
	}
	r.Work = c.WorkAfter(slot.Step, r.Contributions)
	return r
}

// TestNoStrangersRecordIsReckoned: anybody can send a record whose check takes seconds, as a commit
// with any certificate and as the draft of a fork. It is refused before, for what it lacks.
func TestNoStrangersRecordIsReckoned(t *testing.T) {
	l := forkingLab(t, 4, time.Hour)
	a, liar := l.peers[0], &labPeer{lab: l, name: "Z", id: labID("Z"), inc: 9}
	r := dear(a)
	vote := slot.Vote{Ref: a.m.chain.Next(), Hash: r.Hash()}
	err := a.step(labSigned(liar, wire.Commit{Record: r, Certificate: slot.Certificate{Vote: vote}}))
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a commit without signatures: %v", err)
	}
	if err := a.m.chain.Check(r, 0); err == nil || !strings.Contains(err.Error(), "is no member") {
		t.Errorf("contributions by peers that are no members: %v", err)
	}
	r.Members = nil
	for _, p := range []*labPeer{a, liar} {
		r.Members = append(r.Members, slot.Member{Peer: p.id, Incarnation: p.inc, Since: 1, Seat: 1})
	}
	slices.SortFunc(r.Members, func(x, y slot.Member) int { return strings.Compare(string(x.Peer), string(y.Peer)) })
	err = a.step(labSigned(liar, wire.ForkDraft{Record: r}))
	if err == nil || !strings.Contains(err.Error(), "a step record as a fork") {
		t.Errorf("a step as the draft of a fork: %v", err)
	}
}

// TestAnOutcomeThatCannotBeHadForLong: a record that is being applied may be forgotten by the time
// its outcome turns out not to be had. The peer fetches a newer state then; it panicked.
func TestAnOutcomeThatCannotBeHadForLong(t *testing.T) {
	t.Parallel()
	l := longLab(t, false)
	d := l.peers[3]
	d.trains = false
	l.awaits(t, "it is idle", func() bool { return d.m.model.atTip() && d.m.model.state.applying == 0 })
	tip := d.m.chain.Height()
	w := WorkApply{Record: d.m.chain.At(tip)}
	// as advanceState leaves it when it gives that work
	s := &d.m.model.state
	s.height, s.applying = tip-1, tip
	s.root, _ = d.m.chain.StateRoot(tip - 1)
	l.until(t, l.peers[0].view().AppliedSlot+200, l.peers[:3]...)
	if d.m.chain.Holds(tip) {
		t.Fatalf("height %d is not forgotten at %d", tip, d.m.chain.Height())
	}
	d.report(ReportFailed{Work: w, Err: "nobody has the outcome"})
	l.within(t, 10*time.Minute, "it is at the tip", d.m.model.atTip)
}

// TestAStateThatTakesLongToFetch: what was fetched may be older than the records that are kept. The
// peer fetches a newer one then; it waited for ever.
func TestAStateThatTakesLongToFetch(t *testing.T) {
	t.Parallel()
	l := longLab(t, false)
	d := l.peers[3]
	tip := d.m.chain.Height()
	late := d.states[tip-1]
	d.m.model.state = modelState{syncing: true, retryAt: never} // as sync leaves it
	d.trains = false
	l.until(t, l.peers[0].view().AppliedSlot+200, l.peers[:3]...)
	d.report(ReportApplied{Height: tip - 1, StateRoot: late.root, Record: late.record})
	l.within(t, 10*time.Minute, "it is at the tip", d.m.model.atTip)
}
