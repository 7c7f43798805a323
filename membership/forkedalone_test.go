package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// labOfFive is a run of five with a few slots, in which contributions may count for much.
func labOfFive(t *testing.T, private bool) *lab {
	rules := labRules()
	rules.MaxWeightRatio, rules.Private = 8, private
	l := connectedLab(t, rules, labTiming, "ABCDE")
	l.within(t, 2*time.Minute, "slot 4", func() bool {
		return l.peers[0].m.View().AppliedSlot >= 4 && len(l.peers[0].m.chain.Electorate()) == 5
	})
	return l
}

// alone is E of these, which has forked the tip by itself.
func alone(l *lab) *forger {
	e := l.peer("E")
	f := &forger{labPeer: &labPeer{lab: l, name: "E", id: e.id, inc: e.inc}, chain: e.m.chain.UpTo(e.m.chain.Height())}
	f.fork()
	return f
}

// stranger is another name of the forger's.
func (f *forger) stranger(name string) *labPeer {
	return &labPeer{lab: f.lab, name: name, id: labID(name), inc: 77}
}

// beside lists the forger and these as members of the next record.
func (f *forger) beside(others ...*labPeer) []slot.Member {
	listed := []slot.Member{f.chain.Listing(f.id, f.inc)}
	for _, o := range others {
		listed = insertMember(listed, f.chain.Listing(o.id, o.inc))
	}
	return listed
}

// members adds a record that lists these beside the forger.
func (f *forger) members(others ...*labPeer) {
	f.add(slot.Record{
		Kind: slot.Members, Slot: f.chain.Tip().Slot, Members: f.beside(others...), Work: f.chain.Tip().Work,
	})
}

// listing adds a slot to which all members contributed, which lists these members.
func (f *forger) listing(members []slot.Member, lead uint64) {
	c := f.chain
	var offers []slot.Offer
	for _, m := range c.Members() {
		offers = append(offers, slot.Offer{
			Peer: m.Peer, Slot: c.OpenSlot(), Seq: c.SpentSeq(m.Peer) + lead, Base: c.OpenSlot() - 1,
			Weight: c.Rules().MaxWeight,
		})
	}
	all := slot.NewBitmap(len(offers))
	for i := range offers {
		all.Set(i)
	}
	f.add(slot.Record{
		Kind: slot.Step, Slot: c.OpenSlot(), Members: members, Work: c.WorkAfter(slot.Step, offers),
		Usual: c.UsualWeight(), Contributions: offers,
		Segments: []slot.Segment{{Range: slot.Range{End: labElements}, Contributors: all}},
	})
}

// remove adds a record that removes peers by the order of the forger.
func (f *forger) remove(private bool, names ...string) {
	c := f.chain
	r := slot.Record{Kind: slot.Access, Slot: c.Tip().Slot, Members: c.Electorate(), Work: c.Tip().Work}
	if private {
		r.Key = slot.Hash([]byte("key"))
	}
	for _, n := range names {
		d := slot.Decision{Action: slot.Remove, Peer: labID(n), Turn: c.Access().Turn(labID(n))}
		m := d.Motion(c.Height())
		data := slot.SignedBytes(slot.TypeMotion, c.Rules().Run, f.id, f.inc, m.Append(nil))
		d.Motions = []slot.SignedMotion{{Peer: f.id, From: c.Height(), Sig: labSign(f.id, data)}}
		r.Decisions = append(r.Decisions, d)
	}
	slices.SortFunc(r.Decisions, slot.Decision.Compare)
	f.add(r)
}

// give has a peer take the forger's records one by one, wherever it stands.
func (f *forger) give(to *labPeer) {
	for _, c := range f.chain.Above(to.m.chain.CommonHeight(f.chain)) {
		_ = to.step(labSigned(f.labPeer, c))
	}
}

// One member of five forks the tip alone, and lists there what the others never offered, each in
// turn. It votes there alone, or with names of its own, and so proves nothing: nobody takes itself
// for cloned.
func TestWhoForksAloneHasNobodyEnd(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(*lab, *forger)
	}{
		"alone": {func(l *lab, f *forger) {
			f.members(l.peers[0])
			for i := range 4 {
				f.listing(f.beside(l.peers[(i+1)%4]), 1000)
			}
		}},
		"with strangers": {func(l *lab, f *forger) {
			x, y := f.stranger("X"), f.stranger("Y")
			f.members(x)
			f.by = []*labPeer{x}
			f.members(x, y, l.peers[0])
			f.by = []*labPeer{x, y}
			for range 4 {
				f.listing(f.chain.Members(), 1000)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := labOfFive(t, false)
			f := alone(l)
			c.forge(l, f)
			f.serve(5*time.Second, nil)
			moved := 0
			for _, p := range l.peers[:4] {
				moved += btoi(p.m.chain.Has(f.chain.Height(), f.chain.TipHash()))
				if p.m.clones.own != "" || l.eventOf(EventCloned, p.name) {
					t.Errorf("%s takes itself for cloned: %s", p.name, p.m.clones.own)
				}
			}
			if moved == 0 {
				t.Error("nobody has looked at the branch: this shows nothing")
			}
		})
	}
}

// The senior of two members is a quorum alone. It has a slot certified that lists what the other
// one never offered.
func TestTheSeniorOfTwoHasTheOtherNotEnd(t *testing.T) {
	for name, byzantine := range map[string]bool{"crash": false, "byzantine": true} {
		t.Run(name, func(t *testing.T) {
			rules := labRules()
			rules.Byzantine, rules.StartPeers = byzantine, 2
			l := newLab(t, rules, labTiming)
			e, v := l.add("A"), l.add("B")
			l.connect()
			l.within(t, 2*time.Minute, "slot 4 of two", func() bool {
				return e.m.View().AppliedSlot >= 4 && len(e.m.chain.Electorate()) == 2 &&
					v.m.chain.Height() == e.m.chain.Height()
			})
			if slot.Senior(e.m.chain.Electorate()).Peer != e.id {
				e, v = v, e
			}
			f := &forger{labPeer: e, chain: v.m.chain.UpTo(v.m.chain.Height())}
			c := f.chain
			var offers []slot.Offer
			for _, m := range c.Members() {
				offers = append(offers, slot.Offer{
					Peer: m.Peer, Slot: c.OpenSlot(), Seq: c.SpentSeq(m.Peer) + 1000, Base: c.OpenSlot() - 1, Weight: 7,
				})
			}
			f.add(c.Settle(slot.Record{
				Kind: slot.Step, Height: c.Height() + 1, Slot: c.OpenSlot(), Work: c.WorkAfter(slot.Step, offers),
				Usual: c.UsualWeight(), Contributions: offers,
				Segments: []slot.Segment{{Range: slot.Range{End: labElements}, Contributors: slot.Bitmap{3}}},
			}, chain.Turnover{Listed: c.Members()}))
			f.give(v)
			if v.m.chain.TipHash() != f.chain.TipHash() || v.m.clones.own != "" {
				t.Errorf("at height %d of %d it takes itself for cloned: %s", v.m.chain.Height(), f.chain.Height(),
					v.m.clones.own)
			}
			if !l.eventOf(EventSuspected, v.name) {
				t.Error("no event tells of what it did not offer")
			}
		})
	}
}

// One member of five forks the tip alone, removes the others there by its own order, and makes more
// work than they have. They stay with their run.
func TestWhoForksAloneRemovesNobody(t *testing.T) {
	for name, private := range map[string]bool{"open": false, "private": true} {
		t.Run(name, func(t *testing.T) {
			l := labOfFive(t, private)
			f := alone(l)
			f.remove(private, "A", "B", "C", "D")
			for range 9 {
				f.listing(f.chain.Members(), 1)
			}
			before := l.peers[0].m.chain.Tip().Slot
			f.serve(5*time.Second, nil)
			for _, p := range l.peers[:4] {
				v, follows := p.m.View(), p.m.chain.Branch() == f.chain.Branch()
				if v.Expelled || follows || v.Tip.Slot <= before {
					t.Errorf("%s: expelled %v, follows it %v, slot %d after %d",
						p.name, v.Expelled, follows, v.Tip.Slot, before)
				}
				if l.count(p.name, EventRefused) == 0 {
					t.Errorf("%s does not tell of the branch", p.name)
				}
			}
		})
	}
}
