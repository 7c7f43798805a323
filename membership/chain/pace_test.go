package chain

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// pacedBy makes step records of slots 1, 2, …, each with the step times of peers "a", "b", …; 0: it
// did not contribute.
func pacedBy(rules PaceRules, slots ...[]uint32) Pace {
	var records []slot.Record
	for i, times := range slots {
		r := slot.Record{Kind: slot.Step, Slot: uint64(i + 1)}
		for j, t := range times {
			p := slot.PeerID(rune('a' + j))
			r.Members = append(r.Members, slot.Member{Peer: p})
			if t > 0 {
				r.Contributions = append(r.Contributions, slot.Offer{Peer: p, Slot: r.Slot, StepTime: t})
			}
		}
		records = append(records, r)
	}
	return Pace{rules, records}
}

func repeat(times []uint32, n int) (all [][]uint32) {
	for range n {
		all = append(all, times)
	}
	return all
}

func TestPace(t *testing.T) {
	plain, trimmed := PaceRules{InnerSteps: 100, TrimPermille: 200}, PaceRules{InnerSteps: 100, TrimPermille: 250}
	once, others := [][]uint32{{10, 50, 10}}, []uint32{10, 0, 10}
	for _, c := range []struct {
		name string
		pace Pace
		base uint64
		want []uint32
	}{
		{
			"nothing is known in the first round, nor while the first slot is reduced",
			pacedBy(plain, []uint32{10, 40}),
			1,
			[]uint32{25, 25},
		},
		{"by the fastest", pacedBy(plain, []uint32{10, 10, 10, 40}), 2, []uint32{100, 100, 100, 25}},
		{
			"rounded down, but to one step at least", pacedBy(plain, []uint32{10, 10, 33, 5000}), 2,
			[]uint32{100, 100, 30, 1},
		},
		{"a newcomer's first round", pacedBy(plain, []uint32{10, 10, 0}), 2, []uint32{100, 100, 25}},
		{
			"the newest measure counts", pacedBy(plain, []uint32{10, 10, 10}, []uint32{10, 100, 10}), 3,
			[]uint32{100, 10, 100},
		},
		{
			"a record of the base's own slot does not", pacedBy(plain, []uint32{10, 10, 10}, []uint32{10, 100, 10}), 2,
			[]uint32{100, 100, 100},
		},
		{
			"a slot without a contribution changes nothing", pacedBy(plain, []uint32{10, 50, 10}, []uint32{10, 0, 10}),
			3,
			[]uint32{100, 20, 100},
		},
		{
			"a measure of 16 slots ago counts", pacedBy(plain, append(once, repeat(others, 15)...)...), 17,
			[]uint32{100, 20, 100},
		},
		{
			"one of 17 slots ago does not", pacedBy(plain, append(once, repeat(others, 16)...)...), 18,
			[]uint32{100, 25, 100},
		},
		{
			"Forgather's table: speeds of 10, 5 and 2 steps a second",
			pacedBy(PaceRules{InnerSteps: 500, TrimPermille: 200}, []uint32{1e5, 2e5, 5e5}), 2,
			[]uint32{500, 250, 100},
		},
		{ // the first leads by too much to be the reference
			"Forgather's floor: .01 steps a second against 100",
			pacedBy(PaceRules{InnerSteps: 10, TrimPermille: 200}, []uint32{1e4, 1e8}), 2,
			[]uint32{40, 1},
		},
		{
			"who is faster than the reference does more", pacedBy(trimmed, []uint32{5, 10, 10, 40}), 2,
			[]uint32{200, 100, 100, 25},
		},
		{"but not without an end", pacedBy(trimmed, []uint32{1, 10, 10, 40}), 2, []uint32{400, 100, 100, 25}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range c.want {
				if got := c.pace.Steps(slot.PeerID(rune('a'+i)), c.base); got != want {
					t.Errorf("%c: %d steps, want %d", 'a'+i, got, want)
				}
			}
		})
	}
}

// H_w by exact fractions, and bounds whatever the records say.
func TestPaceIsItsEquation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Uint64Range(1, 1<<30).Draw(t, "H")
		times := rapid.SliceOfN(rapid.Uint32(), 1, 20).Draw(t, "times")
		rules := PaceRules{h, rapid.Uint64Range(0, 499).Draw(t, "trim")}
		p := pacedBy(rules, times)
		reference := p.reference(2)
		for i, own := range times {
			got := p.Steps(slot.PeerID(rune('a'+i)), 2)
			want := max(1, h/4)
			if own > 0 && reference > 0 {
				q := new(big.Int).Mul(new(big.Int).SetUint64(h), big.NewInt(int64(reference)))
				want = max(1, min(maxAhead*h, math.MaxInt32, q.Div(q, big.NewInt(int64(own))).Uint64()))
			}
			if uint64(got) != want {
				t.Fatalf("%d steps, want %d", got, want)
			}
		}
		if all := p.All(2, p.records[0].Members); all["a"] != p.Steps("a", 2) {
			t.Fatal("All and Steps differ")
		}
	})
}
