package chain

import (
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// weighed is a chain of steps whose contributions have these weights.
func weighed(rules Rules, steps ...[]uint64) *Chain {
	rules.Fragments = []uint64{1}
	c := New(rules, slot.Root{})
	members := listed("ab")
	push := func(r slot.Record) {
		r.Height, r.Prev, r.Members = c.Height()+1, c.TipHash(), members
		c.Push(wire.Commit{Record: r})
	}
	push(slot.Record{Kind: slot.Fork})
	for i, weights := range steps {
		r := slot.Record{Kind: slot.Step, Slot: uint64(i + 1)}
		for j, w := range weights {
			r.Contributions = append(r.Contributions, slot.Offer{Peer: slot.PeerID(rune('a' + j)), Weight: w})
		}
		r.Work = c.WorkAfter(slot.Step, r.Contributions)
		push(r)
		push(slot.Record{Kind: slot.Members, Slot: r.Slot, Work: r.Work}) // these do not count
	}
	return c
}

func same(n int, weights ...uint64) (steps [][]uint64) {
	for range n {
		steps = append(steps, weights)
	}
	return steps
}

// A contribution adds its weight to the work, up to max_weight and the ratio times the median of
// the 16 steps before.
func TestWeightsCountUpToTheUsual(t *testing.T) {
	for _, c := range []struct {
		name       string
		max, ratio uint64
		steps      [][]uint64
		weight     uint64
		want       uint64 // what it adds to the work
	}{
		{"no bound", 0, 0, same(3, 10), math.MaxUint64 / 2, math.MaxUint64 / 2},
		{"max_weight alone", 100, 0, same(3, 10), 1000, 100},
		{"the ratio", 100, 8, same(3, 10), 1000, 80},
		{"max_weight is less", 50, 8, same(3, 10), 1000, 50},
		{"below both", 100, 8, same(3, 10), 79, 79},
		{"no step before", 100, 8, nil, 1000, 100},
		{"of an even number the lower one", 0, 8, same(1, 10, 30), 1000, 80},
		{"one liar of three moves nothing", 0, 8, same(4, 10, 11, 1<<50), 1 << 50, 88},
		{"the newest 16", 0, 8, append(same(16, 1000), same(16, 10)...), 1 << 50, 80},
		{"17 steps ago", 0, 8, append(same(1, 10), same(16, 1000)...), 1 << 50, 8000},
		{"a product beyond 64 bits is no bound", 0, 1 << 16, same(1, 1<<56), 1 << 60, 1 << 60},
	} {
		chain := weighed(Rules{MaxWeight: c.max, MaxWeightRatio: c.ratio}, c.steps...)
		work := chain.Tip().Work
		if got := chain.WorkAfter(slot.Step, []slot.Offer{{Weight: c.weight}}) - work; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if got := chain.WorkAfter(slot.Step, []slot.Offer{{Weight: c.weight}, {Weight: 1}}) - work; got != c.want+1 {
			t.Errorf("%s: two contributions: %d, want %d", c.name, got, c.want+1)
		}
	}
}

func TestOnlyFoundersFound(t *testing.T) {
	for _, c := range []struct {
		founders, members string
		ok                bool
	}{
		{"", "a", true},
		{"", "ab", true},
		{"a", "a", true},
		{"a", "b", false},
		{"a", "ab", false},
		{"ab", "a", false},
		{"ab", "ab", true},
		{"abc", "ab", true},
		{"abc", "b", false},
		{"abc", "abx", false},
		{"abcd", "ab", false},
		{"abcd", "bcd", true},
	} {
		rules := Rules{Fragments: []uint64{1}}
		for _, p := range c.founders {
			rules.Founders = append(rules.Founders, slot.PeerID(p))
		}
		chain := New(rules, slot.Root{})
		r := slot.Record{Kind: slot.Fork, Height: 1, Prev: chain.TipHash()}
		for _, p := range c.members {
			r.Members = append(r.Members, chain.Listing(slot.PeerID(p), 1))
		}
		if err := chain.Check(r); (err == nil) != c.ok {
			t.Errorf("founders %s, a founding by %s: %v", c.founders, c.members, err)
		}
	}
}
