package membership

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// foundedByStrangers is a chain that three strangers have founded, X, Y and Z. It lists a peer as a
// member with a seat from height 2 on, and from height 3 on contributions that the peer never made,
// with the given sequence numbers.
func foundedByStrangers(l *lab, victim *labPeer, seq ...uint64) *forger {
	stranger := func(name string) *labPeer { return &labPeer{lab: l, name: name, id: labID(name), inc: 77} }
	f := &forger{
		labPeer: stranger("Z"), chain: chain.New(l.rules, slot.Root{}), by: []*labPeer{stranger("X"), stranger("Y")},
	}
	var strangers []slot.Member
	for _, p := range []*labPeer{f.by[0], f.by[1], f.labPeer} {
		strangers = append(strangers, f.chain.Listing(p.id, p.inc))
	}
	f.add(f.chain.SettleFork(slot.Record{Kind: slot.Fork}, chain.Turnover{Listed: strangers}))
	with := append([]slot.Member{f.chain.Listing(victim.id, victim.inc)}, strangers...)
	f.add(f.chain.Settle(
		slot.Record{Kind: slot.Members, Height: 2, Work: f.chain.Tip().Work},
		chain.Turnover{Listed: with, Seat: victim.id},
	))
	for _, n := range seq {
		c := f.chain
		var offers []slot.Offer
		for _, m := range with {
			offers = append(offers, slot.Offer{
				Peer: m.Peer, Slot: c.OpenSlot(), Seq: c.SpentSeq(m.Peer) + 1, Base: c.OpenSlot() - 1, Weight: 7,
			})
		}
		offers[0].Seq = n
		f.add(c.Settle(slot.Record{
			Kind: slot.Step, Height: c.Height() + 1, Slot: c.OpenSlot(), Contributions: offers,
			Work:     c.WorkAfter(slot.Step, offers),
			Segments: []slot.Segment{{Range: slot.Range{End: labElements}, Contributors: slot.Bitmap{15}}},
		}, chain.Turnover{Listed: c.Members()}))
	}
	return f
}

// Strangers found the spec again, list a newcomer as a member, and have it contribute what it never
// made. They are the whole quorum of their chain, so no voter asked for the newcomer's signature.
// It does not take itself for cloned: anybody could end every process that has no chain yet.
func TestStrangersCannotHaveANewcomerEnd(t *testing.T) {
	for name, byzantine := range map[string]bool{"crash": false, "byzantine": true} {
		t.Run(name, func(t *testing.T) {
			rules := labRules()
			rules.Byzantine, rules.StartPeers = byzantine, 4
			l := newLab(t, rules, labTiming)
			e := l.add("E")
			f := foundedByStrangers(l, e, 5, 6)
			_ = e.step(labSigned(f.labPeer, f.alive()))
			for _, c := range f.chain.Commits() {
				if err := e.step(labSigned(f.labPeer, c)); err != nil {
					t.Fatal(err)
				}
			}
			if e.m.chain.TipHash() != f.chain.TipHash() || !e.m.member() || !e.m.elector() {
				t.Fatal(l.show())
			}
			if e.m.clones.own != "" || l.eventOf(EventCloned, "E") {
				t.Errorf("it takes itself for cloned: %s", e.m.clones.own)
			}
			if n := l.count("E", EventSuspected); n != 1 {
				t.Errorf("it says %d times that the records have contributions that it did not make", n)
			}
		})
	}
}

// A member without a vote comes back with an old data directory. That no record with a signature of
// it shows so is no reason to be evicted: what it offers has none of the numbers that it had used.
func TestAnOldDirectoryWithoutAVoteOffersAnew(t *testing.T) {
	l := labOf(t, "ABC")
	a := l.peers[0]
	spent := a.m.chain.SpentSeq(a.id) + 9
	r := stepRecord(a.m, "A")
	r.Contributions[0].Seq = spent
	a.m.chain = a.m.chain.UpTo(a.m.chain.Height())
	a.m.chain.Push(wire.Commit{Record: r})
	open := a.m.chain.OpenSlot()
	for i := range uint64(3) {
		a.report(ReportOffer{Slot: open, Base: open - 1, Weight: 1})
		if o := a.m.own.mine; o == nil || o.Seq != spent+maxProven+1+i {
			t.Fatalf("offer %d after %d: %+v", i, spent, o)
		}
	}
}
