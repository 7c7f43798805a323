package chain

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// dealt is a random chain as far as parts are concerned, and what must hold along it.
type dealt struct {
	d           *assigner
	records     []slot.Record
	last        map[slot.PeerID]uint64
	open        uint64
	members     []slot.Member
	contributed map[uint64]bool
	was         map[Part]slot.PeerID // every part ever dealt
}

func newDealt(ahead, stale uint64) *dealt {
	return &dealt{
		d: newAssigner(Rules{Ahead: ahead, MaxStaleness: stale}), last: map[slot.PeerID]uint64{}, open: 1,
		contributed: map[uint64]bool{}, was: map[Part]slot.PeerID{},
	}
}

func (w *dealt) lastOf(p slot.PeerID) uint64 { return w.last[p] }

func (w *dealt) follow(r slot.Record) {
	for _, o := range r.Contributions {
		w.last[o.Peer] = r.Slot
		for p, owner := range w.was { // it may still be contributed, so it must not have come back
			if p.Slot == o.Base+1 && owner == o.Peer {
				w.contributed[p.Number] = true
			}
		}
	}
	w.records, w.members, w.open = append(w.records, r), r.Members, r.Slot+1
	w.d.follow(r, w.lastOf)
}

func (w *dealt) inHand(s uint64, p slot.PeerID) (part Part, ok bool) {
	for _, part := range w.d.parts(p) {
		if part.Slot == s {
			return part, true
		}
	}
	return Part{}, false
}

func (w *dealt) listed(peers ...int) (ms []slot.Member) {
	for _, p := range peers {
		ms = append(ms, slot.Member{Peer: slot.PeerID(fmt.Sprintf("p%02d", p))})
	}
	return ms
}

// step is a record of the open slot: contributions by base.
func (w *dealt) step(members []slot.Member, bases map[slot.PeerID]uint64) {
	r := slot.Record{Kind: slot.Step, Slot: w.open, Members: members}
	for _, p := range slices.Sorted(maps.Keys(bases)) {
		r.Contributions = append(r.Contributions, slot.Offer{Peer: p, Slot: w.open, Base: bases[p]})
	}
	w.follow(r)
}

// check: each part is in one place, none is lost, every member has what it needs, and nothing that
// was dealt has changed hands.
func (w *dealt) check(t interface{ Fatalf(string, ...any) }) {
	place := map[uint64]string{}
	put := func(part uint64, where string) {
		if other, twice := place[part]; twice {
			t.Fatalf("part %d is in two places: %s, %s", part, other, where)
		}
		place[part] = where
	}
	for part := range w.contributed {
		put(part, "contributed")
	}
	for _, p := range w.d.back {
		put(p.part, "back")
	}
	for i, hands := range w.d.shares {
		for _, h := range hands {
			p, part, s := h.peer, h.part, w.d.first+uint64(i)
			put(part, fmt.Sprintf("%s for slot %d", p, s))
			if owner, known := w.was[Part{Slot: s, Number: part}]; known && owner != p {
				t.Fatalf("part %d went from %s to %s within slot %d", part, owner, p, s)
			}
			w.was[Part{Slot: s, Number: part}] = p
		}
	}
	for part := range w.d.next {
		if place[part] == "" {
			t.Fatalf("part %d of %d is nowhere", part, w.d.next)
		}
	}
	if len(place) != int(w.d.next) {
		t.Fatalf("%d parts have a place, %d were dealt", len(place), w.d.next)
	}
	for _, m := range w.members {
		for s := w.open; s <= w.open+w.d.rules.Ahead; s++ {
			if _, ok := w.inHand(s, m.Peer); !ok {
				t.Fatalf("%s has no part for slot %d", m.Peer, s)
			}
		}
	}
}

func TestPartsAreInOnePlaceAndNoneIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newDealt(rapid.Uint64Range(0, 1).Draw(t, "ahead"), rapid.Uint64Range(0, 3).Draw(t, "stale"))
		peers := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 6, rapid.ID[int])
		some := func(what string) []slot.Member {
			list := peers.Draw(t, what)
			slices.Sort(list)
			return w.listed(list...)
		}
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
				w.follow(slot.Record{Kind: slot.Members, Slot: w.open - 1, Members: some("members")})
			} else {
				bases := map[slot.PeerID]uint64{}
				for _, m := range some("contributors") {
					bases[m.Peer] = w.open - 1 - min(w.open-1,
						rapid.Uint64Range(0, w.d.rules.MaxStaleness).Draw(t, "staleness"))
				}
				w.step(some("members"), bases)
			}
			w.check(t)
		}
		again := newAssigner(w.d.rules)
		last := map[slot.PeerID]uint64{}
		for _, r := range w.records {
			for _, o := range r.Contributions {
				last[o.Peer] = r.Slot
			}
			again.follow(r, func(p slot.PeerID) uint64 { return last[p] })
		}
		if !reflect.DeepEqual(again, w.d) {
			t.Fatalf("another peer that holds the same records deals %v, this one %v", again, w.d)
		}
		w.settleDown(t)
	})
}

// settleDown: when all contribute again, what had been dealt till then is contributed soon, though
// one member only votes.
func (w *dealt) settleDown(t *rapid.T) {
	till, voter := w.d.next, slot.PeerID("p00")
	members := w.listed(0, 1, 2, 3)
	for range 60 {
		bases := map[slot.PeerID]uint64{}
		for _, m := range members {
			if m.Peer != voter {
				bases[m.Peer] = w.open - 1
			}
		}
		w.step(members, bases)
		w.check(t)
	}
	for part := range till {
		if !w.contributed[part] {
			t.Fatalf("part %d of %d was not contributed within 60 slots", part, till)
		}
	}
}

// Members that do few steps a round go on with the rest of their part, two parts in turn where they
// are ahead. A part that a member leaves, or does nothing with, goes to others.
func TestRestsOfParts(t *testing.T) {
	w := newDealt(1, 0)
	w.d.rules.PartSteps, w.d.rules.Pace.InnerSteps = 10, 4
	step := func(members []slot.Member, steps ...uint32) {
		r := slot.Record{Kind: slot.Step, Slot: w.open, Members: members}
		for i, n := range steps {
			r.Contributions = append(r.Contributions,
				slot.Offer{Peer: w.listed(i + 1)[0].Peer, Slot: w.open, Base: w.open - 1, Steps: n})
			w.last[r.Contributions[i].Peer] = w.open
		}
		w.members, w.open = members, w.open+1
		w.d.follow(r, w.lastOf)
	}
	want := func(what string, peer int, parts ...Part) {
		t.Helper()
		if got := w.d.parts(w.listed(peer)[0].Peer); !slices.Equal(got, parts) {
			t.Errorf("%s: peer %d has %v, want %v", what, peer, got, parts)
		}
	}
	both := w.listed(1, 2)
	w.d.follow(slot.Record{Kind: slot.Fork, Members: both}, w.lastOf)
	want("founded", 1, Part{1, 0, 0}, Part{2, 2, 0})
	want("founded", 2, Part{1, 1, 0}, Part{2, 3, 0})
	step(both, 6, 10)
	want("a rest", 1, Part{2, 2, 0}, Part{3, 0, 6})
	want("a whole part", 2, Part{2, 3, 0}, Part{3, 4, 0})
	step(both, 0, 9)
	want("H where nothing is said", 1, Part{3, 0, 6}, Part{4, 2, 4})
	want("one step is left", 2, Part{3, 4, 0}, Part{4, 3, 9})
	step(both, 9, 20)
	want("beyond the end", 1, Part{4, 2, 4}, Part{5, 5, 0})
	step(w.listed(2))
	want("of who is gone", 2, Part{5, 6, 0}, Part{6, 2, 4})
}

func BenchmarkDeal(b *testing.B) {
	w := newDealt(1, 3)
	members := w.listed(0, 1, 2, 3, 4, 5, 6, 7)
	bases := map[slot.PeerID]uint64{}
	r := slot.Record{Kind: slot.Step, Members: members}
	for _, m := range members {
		bases[m.Peer] = 0
		r.Contributions = append(r.Contributions, slot.Offer{Peer: m.Peer})
	}
	for b.Loop() {
		r.Slot++
		for i := range r.Contributions {
			r.Contributions[i].Base = r.Slot - 1
		}
		w.d.follow(r, w.lastOf)
	}
}
