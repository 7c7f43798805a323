package membership

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestAForgedLockForcesNobody (BYZANTINE a3): a member that promises a candidate's ballot names a
// lock that no quorum has made. The candidate does not count its promise. It is free once the
// honest ones are a quorum, and its record is certified in that ballot.
func TestAForgedLockForcesNobody(t *testing.T) {
	l := labOf(t, "ABC")
	d := l.peers[0].m.open
	at := func(term uint32) *labPeer { return l.peer(labName(d.leader(term * slot.Tries).Peer)) }
	liar, candidate, honest := at(0), at(1), at(2)
	own := stepRecord(liar.m, liar.name)
	ballot := uint32(slot.Tries)
	promise := func(q wire.QC, locked bool) wire.Message {
		lock := q.Lock()
		p := wire.Promise{Ref: d.position(ballot), Lock: &lock}
		if locked {
			p.Locked = &wire.Locked{QC: q, Record: own, Proofs: l.proofs(own.Contributions)}
		}
		return labSigned(liar, p)
	}
	unsigned := *l.qc(own, "ABC")
	for _, h := range unsigned.Haves {
		h.Sig[0]++
	}
	l.manual = true
	honest.m.pacemaker.next()
	candidate.m.pacemaker.next()
	candidate.flush()
	for name, msg := range map[string]wire.Message{
		"no QC":                  promise(unsigned, false),
		"HAVEs that none signed": promise(unsigned, true),
		"one HAVE":               promise(*l.qc(own, liar.name), true),
	} {
		if candidate.step(msg) == nil || len(candidate.m.open.promised) != 1 {
			t.Errorf("%s: the promise counts", name)
		}
	}
	if n := l.count(candidate.name, EventRefused); n != 1 {
		t.Errorf("the candidate says %d times that it refuses such promises", n)
	}
	l.manual, l.held = false, nil
	for _, p := range l.peers {
		p.trains = p != liar
	}
	l.filters = []*labFilter{{from: liar.name, left: -1}, {to: liar.name, left: -1}}
	if !l.run(labTiming.Lost, func() bool { return candidate.m.chain.Tip().Slot == 1 }) {
		t.Fatalf("nothing is decided:\n%s%s", l.show(), l.showWords())
	}
	tip := candidate.m.chain.Commits()[candidate.m.chain.Height()-1]
	if tip.Certificate.Ballot != ballot || len(tip.Record.Contributions) != 2 {
		t.Errorf("decided in ballot %d: %d contributions", tip.Certificate.Ballot, len(tip.Record.Contributions))
	}
}
