package chain

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// sapling is a small tree of chains: each but the first goes on from an earlier one, or from
// another founding.
func sapling(t *rapid.T, byzantine bool) (all []*Chain) {
	empty := New(Rules{
		Run: slot.Hash([]byte("run")), Fragments: []uint64{1}, Byzantine: byzantine, LastSlot: 2,
	}, slot.Root{})
	for n := rapid.IntRange(3, 10).Draw(t, "records"); len(all) < n; {
		from := empty
		if len(all) > 0 && rapid.IntRange(0, 5).Draw(t, "founds") > 0 {
			from = all[rapid.IntRange(0, len(all)-1).Draw(t, "parent")]
		}
		if from.Closed() {
			from = empty
		}
		kind := slot.Fork
		if from != empty {
			kind = rapid.SampledFrom([]slot.Kind{slot.Fork, slot.Members, slot.Step}).Draw(t, "kind")
		}
		members, work := rapid.IntRange(1, 4).Draw(t, "members"), rapid.Uint64Range(0, 3).Draw(t, "work")
		all = append(all, grown(from, kind, members, from.Tip().Work+work, len(all)))
	}
	return all
}

// grown appends a record, which salt tells from its siblings.
func grown(c *Chain, kind slot.Kind, members int, work uint64, salt int) *Chain {
	next := c.UpTo(c.Height())
	r := slot.Record{
		Run: c.rules.Run, Height: c.Height() + 1, Kind: kind, Prev: c.TipHash(), Slot: c.Tip().Slot, Work: work,
	}
	if kind == slot.Step {
		r.Slot++
	}
	r.StateRoot = slot.Hash(fmt.Append(nil, salt))
	for i := range members {
		r.Members = append(r.Members, slot.Member{Peer: slot.PeerID(fmt.Sprint("peer ", i)), Since: 1, Seat: 1})
	}
	next.Push(wire.Commit{Record: r})
	return next
}

// Of any chains one is the better one of each two, and no three make a circle. The one exception
// stands: two branches of one founding, of which one alone has had a second member, against
// another founding. No peer gives up a founding that has had one.
func TestBetterIsOneOrder(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		rapid.Check(t, func(t *rapid.T) {
			all := sapling(t, byzantine)
			for _, a := range all {
				for _, b := range all {
					if a.TipHash() != b.TipHash() && a.Better(b) == b.Better(a) {
						t.Fatal("neither of two chains is better, or both are")
					}
					for _, c := range all {
						if a.Better(b) && b.Better(c) && c.Better(a) && !partlyShared(a, b, c) {
							t.Fatal("a circle")
						}
					}
				}
			}
		})
	}
}

func partlyShared(chains ...*Chain) bool {
	for _, a := range chains {
		for _, b := range chains {
			if a.Founding() == b.Founding() && a.SharedSince(0) != b.SharedSince(0) {
				return true
			}
		}
	}
	return false
}

func founding(c *Chain) []byte {
	hash := c.Founding()
	return hash[:]
}

// What comes first where members may lie, and where they only crash.
func TestBetter(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		empty := New(Rules{Run: slot.Hash([]byte("run")), Fragments: []uint64{1}, Byzantine: byzantine}, slot.Root{})
		base := grown(empty, slot.Fork, 4, 10, 0)
		certificate, light := grown(base, slot.Members, 4, 10, 1), grown(base, slot.Fork, 3, 10, 2)
		heavy := grown(grown(base, slot.Fork, 2, 10, 3), slot.Step, 2, 19, 4)
		lone, salt := base, 5
		// of the lower hash
		for lone == base || bytes.Compare(founding(lone), founding(base)) > 0 {
			lone, salt = grown(empty, slot.Fork, 1, 10, salt), salt+1
		}
		lone = grown(lone, slot.Step, 1, 90, 6)
		for _, c := range []struct {
			name string
			a, b *Chain
			want bool // of trust byzantine
		}{
			{"a certificate over a fork with more work", certificate, heavy, true},
			{"the fork of more electors over one with more work", light, heavy, true},
			{"a founding of several over a lone one with more work", base, lone, true},
		} {
			if got := c.a.Better(c.b); got != (c.want == byzantine) {
				t.Errorf("%s, byzantine %v: %v", c.name, byzantine, got)
			}
		}
		if !certificate.Better(base) || base.Better(certificate) {
			t.Error("a chain is no better than its beginning")
		}
	}
}
