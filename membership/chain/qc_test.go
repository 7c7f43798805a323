package chain

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// haves lists a HAVE for each letter, in the ballot that the digit after it says: "a2 b2 c1".
func haves(t *testing.T, text string) (hs []wire.SignedHave) {
	for _, m := range parseMembers(t, text) {
		hs = append(hs, wire.SignedHave{Peer: m.Peer, Incarnation: 1, Ballot: uint32(m.Credit)})
	}
	return hs
}

// A QC takes HAVEs of its own ballot by a quorum of the electors, and HAVEs of any ballot by a
// quorum of those that its record lists and by each of these that is no elector yet.
func TestQCsAreQuorums(t *testing.T) {
	for _, c := range []struct {
		electors, listed, haves string
		ok                      bool
	}{
		{"A32 B32 C32 D32", "A32 B32 C32 D32", "a2 b2 c2", true},
		{"A32 B32 C32 D32", "A32 B32 C32 D32", "a2 b2", false},
		{"A32 B32 C32 D32", "A32 B32 C32 D32", "a2 b2 c1", false},
		{"A32 B32 C32 D32", "A32 B32 C32 D32", "a1 b1 c1 d1", false},
		{"A32 B32 C32 D32", "A32 B32 C32 D32", "a2 b2 x2", false},
		{"A32 B32 C32 D32", "A32 B32 C32 D32 E32", "a2 b2 c2", false},
		{"A32 B32 C32 D32", "A32 B32 C32 D32 E32", "a2 b2 c2 e1", true},
		{"A32 B32 C32 D32", "A32 B32 C32 D32 E32", "a2 b2 c1 e2", false},
		{"A32 B32 C32 D32 E32 F32 G32", "A32 B32", "a1 c2 d2 e2 f2 g2", true},
		{"A32 B32 C32 D32 E32 F32 G32", "A32 B32", "b1 c2 d2 e2 f2 g2", false},
	} {
		w := found(t, seatRules(1), c.electors)
		r := slot.Record{Run: w.rules.Run, Height: 2, Kind: slot.Step, Members: parseMembers(t, c.listed)}
		err := w.CheckQC(wire.QC{Ballot: 2, Hash: r.Hash(), Haves: haves(t, c.haves)}, r)
		if (err == nil) != c.ok {
			t.Errorf("electors %q, record of %q, HAVEs %q: %v", c.electors, c.listed, c.haves, err)
		}
		other := r
		other.Slot++
		if w.CheckQC(wire.QC{Ballot: 2, Hash: r.Hash(), Haves: haves(t, c.haves)}, other) == nil {
			t.Errorf("electors %q: a QC for another record was taken", c.electors)
		}
	}
}
