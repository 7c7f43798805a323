package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A leader plans nothing, and proposes ever new records that nobody has given HAVE for. The others
// decide the slot without it.
func TestProposalsOfNothingKeepNoLeader(t *testing.T) {
	l, others := ledByTalker(t, func(open slot.Ref, n byte) wire.Body {
		h := slot.Root{n, 1}
		return wire.Propose{Vote: slot.Vote{Ref: open, Hash: h}, QC: &wire.QC{Hash: h}}
	})
	for _, p := range others {
		if n := l.count(p.name, EventRefused); n != 1 {
			t.Errorf("%s tells %d times whose proposals it refuses", p.name, n)
		}
	}
}

// A proposal counts as progress once a ballot, however many records a quorum has given HAVE for.
func TestProposalsAreProgressOnce(t *testing.T) {
	l := labOf(t, "ABCD")
	m := l.peers[0].m
	leader := l.peer(labName(m.open.leader(0).Peer))
	if leader == l.peers[0] {
		m = l.peers[1].m
	}
	var haves []wire.SignedHave
	for _, e := range m.chain.Electorate() {
		haves = append(haves, wire.SignedHave{Peer: e.Peer, Incarnation: e.Incarnation})
	}
	for i := range byte(3) {
		m.now += time.Second
		v := slot.Vote{Ref: m.open.ref, Hash: slot.Root{i, 1}}
		p := wire.Propose{Vote: v, QC: &wire.QC{Hash: v.Hash, Haves: haves}}
		if err := m.acceptor.onPropose(labSigned(leader, p), p); err != nil {
			t.Fatal(err)
		}
		if lives := m.open.life == m.now; lives != (i == 0) {
			t.Errorf("proposal %d: progress %v", i, lives)
		}
	}
}
