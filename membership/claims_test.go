package membership

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A draft carries a whole record, up to a MiB. What a member claimed is kept without it: otherwise
// one member that drafts in each ballot takes hundreds of MiB.
func TestClaimsKeepOnlyWhatWasSigned(t *testing.T) {
	l, say := hostileLab(t, "abc")
	a, c := l.peers[0], l.peers[2]
	for ballot := range uint32(2 * maxClaimsBy) {
		r := stepRecord(a.m, "abc")
		d := draftOf(ballot, r, l.proofs(r.Contributions))
		d.Ref = a.m.open.position(ballot)
		_ = say(a, "c", c.inc, d)
	}
	if n := len(a.m.evidence.claims); n == 0 {
		t.Fatal("no claim is kept")
	}
	for _, msg := range a.m.evidence.claims {
		if d, ok := msg.Body.(wire.Draft); ok && len(d.Record.Contributions) > 0 {
			t.Fatal("a claim keeps the record of a draft")
		}
	}
}

// TestAHighBallotDeposesNobody (BYZANTINE a18): one member leads each n-th term. Its BEAT for one
// to come, which nobody has promised, turns no peer away from a leader that gets on.
func TestAHighBallotDeposesNobody(t *testing.T) {
	rules := labRules()
	rules.Byzantine, rules.StartPeers = true, 4
	l := newLab(t, rules, labTiming)
	for _, n := range "abcd" {
		l.add(string(n)).stuck = true // the plan stays
	}
	a := l.peers[0]
	l.awaits(t, "a plan", func() bool { return a.m.open.plan != nil && a.m.open.led })
	led := a.m.open.ballot
	liar := a.m.open.leader(led + slot.Tries)
	if liar.Peer == a.id {
		liar = a.m.open.leader(led + 2*slot.Tries)
	}
	for term := uint32(1); term < 9; term++ {
		b := (a.m.open.position(led).Term() + term) * slot.Tries
		if a.m.open.leader(b).Peer != liar.Peer {
			continue
		}
		for _, body := range []wire.Body{
			wire.Promise{Ref: a.m.open.position(b)},
			wire.Beat{Ref: a.m.open.position(b), Offers: 1},
			wire.Retry{Ref: a.m.open.position(b + 1)},
		} {
			err := a.step(wire.Message{From: liar.Peer, Incarnation: liar.Incarnation, Body: body})
			if a.m.open.ballot != led {
				t.Fatalf("follows ballot %d on the word of %s: %v", b, labName(liar.Peer), err)
			}
		}
	}
}
