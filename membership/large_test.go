package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// largeRun is of so many members, with names as long as real ones, that all contribute.
type largeRun struct {
	ids     []slot.PeerID
	members []slot.Member
	offers  []slot.Offer
}

func newLargeRun(n int) (r largeRun) {
	for i := range n {
		id := slot.PeerID(fmt.Sprintf("%038d", i)) // of an Ed25519 identity, in bytes
		r.ids = append(r.ids, id)
		r.members = append(r.members, slot.Member{Peer: id, Incarnation: 1, Since: 1, Seat: 1})
		r.offers = append(r.offers, slot.Offer{Peer: id, Slot: 1, Seq: 1, Weight: 1, Root: testRoot(byte(i))})
	}
	return r
}

func (r largeRun) record(kind slot.Kind) slot.Record {
	c := slot.Record{Run: testRoot(1), Height: 2, Kind: kind, Slot: 1, Members: r.members}
	if kind == slot.Step {
		c.Contributions, c.Segments = r.offers, r.segments()
	}
	return c
}

// segments are one for each member, of all.
func (r largeRun) segments() (out []slot.Segment) {
	all := slot.NewBitmap(len(r.ids))
	for i := range r.ids {
		all.Set(i)
	}
	for i := range r.ids {
		out = append(out, slot.Segment{
			Range: slot.Range{Begin: uint64(i), End: uint64(i) + 1}, Contributors: all,
			Root: testRoot(2),
		})
	}
	return out
}

func (r largeRun) draft() wire.Draft {
	return draftOf(0, r.record(slot.Step), make([]wire.OfferProof, len(r.ids)))
}

// qc has the HAVEs of all.
func (r largeRun) qc() (q wire.QC) {
	q.Hash = r.record(slot.Step).Hash()
	for _, id := range r.ids {
		q.Haves = append(q.Haves, wire.SignedHave{Peer: id, Incarnation: 1, Sig: make([]byte, 64)})
	}
	return q
}

func (r largeRun) proposal() wire.Propose {
	q := r.qc()
	return wire.Propose{Vote: slot.Vote{Hash: q.Hash}, QC: &q}
}

func (r largeRun) promise() wire.Promise {
	q, d := r.qc(), r.draft()
	lock, ref := q.Lock(), d.Ref
	ref.Ballot = slot.Tries
	return wire.Promise{Ref: ref, Lock: &lock, Locked: &wire.Locked{QC: q, Record: d.Record, Proofs: d.Proofs}}
}

// certificate has so many signatures.
func (r largeRun) certificate(n int) (c slot.Certificate) {
	for _, id := range r.ids[:n] {
		c.Signatures = append(c.Signatures, slot.Signature{Peer: id, Sig: make([]byte, 64)})
	}
	return c
}

func (r largeRun) commit(kind slot.Kind, n int) wire.Commit {
	c := wire.Commit{Record: r.record(kind), Certificate: r.certificate(n)}
	c.Certificate.Vote = slot.Vote{Ref: slot.Ref{Height: c.Record.Height, Prev: c.Record.Prev}, Hash: c.Record.Hash()}
	return c
}

// What 500 members gossip fits into an announcement, and everything that they say into a message.
// `go test -v` shows how much is left.
func TestFiveHundredMembers(t *testing.T) {
	const n = 500
	r, links := newLargeRun(n), make([]slot.Link, n-1)
	for _, c := range []struct {
		name string
		body wire.Body
		most int
	}{
		{"ALIVE of one that reaches all", wire.Alive{Reaches: r.ids[1:], Links: links}, wire.MaxAnnouncement},
		{"ALIVE of one that reaches nobody", wire.Alive{Apart: r.ids[1:]}, wire.MaxAnnouncement},
		{"OFFER", wire.Offer{Offer: r.offers[0]}, wire.MaxAnnouncement},
		{"JOIN", wire.Join{}, wire.MaxAnnouncement},
		{
			"COMMIT of a members record",
			r.commit(slot.Members, n/2+1),
			wire.MaxAnnouncement,
		},
		{"COMMIT of a step", r.commit(slot.Step, n), slot.MaxMessage},
		{"COMMIT of a fork", r.commit(slot.Fork, n), slot.MaxMessage},
		{"PROPOSE", r.proposal(), slot.MaxMessage},
		{"PROMISE with a lock", r.promise(), slot.MaxMessage},
		{"DRAFT of a step", r.draft(), slot.MaxMessage},
		{"PLAN", wire.Plan{Plan: slot.Plan{Offers: r.offers, Pieces: pieces(r.ids)}}, slot.MaxMessage},
	} {
		b := mustSeal(t, newTestSigner(1), testRoot(1), 1, c.body)
		t.Logf("%s: %d bytes of %d", c.name, len(b), c.most)
		if len(b) > c.most {
			t.Errorf("%s: %d bytes, at most %d may be said so", c.name, len(b), c.most)
		}
		if _, err := wire.Open(b, testRoot(1), testVerify); err != nil {
			t.Errorf("%s cannot be read: %v", c.name, err)
		}
	}
}

func pieces(owners []slot.PeerID) (ps []slot.Piece) {
	for i, id := range owners {
		ps = append(ps, slot.Piece{Range: slot.Range{Begin: uint64(i), End: uint64(i) + 1}, Owner: id})
	}
	return ps
}

// BenchmarkMemberOf500 is what a member of a run of 500 does with each ALIVE that it hears, of
// which one of each comes every 5 s, and with each tick.
func BenchmarkMemberOf500(b *testing.B) {
	r := newLargeRun(500)
	m := newLab(b, labRules(), labTiming).add("A").m
	m.chain.Push(wire.Commit{Record: r.record(slot.Fork)})
	tip := m.chain.TipHash()
	links := make([]slot.Link, len(r.ids))
	hear := func(i int) {
		from := r.members[i%len(r.members)]
		alive := wire.Alive{Branch: m.chain.Branch(), Height: 1, Tip: tip, Work: 1, Reaches: r.ids, Links: links}
		if err := m.Step(m.now+time.Millisecond,
			wire.Message{From: from.Peer, Incarnation: from.Incarnation, Body: alive}); err != nil {
			b.Fatal(err)
		}
		m.Ready()
	}
	b.Run("alive", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			hear(i)
		}
	})
	b.Run("tick", func(b *testing.B) {
		for b.Loop() {
			m.Tick(m.now + time.Microsecond)
			m.Ready()
		}
	})
}
