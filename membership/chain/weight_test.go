package chain

import (
	"math"
	"strings"
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
		want       uint64 // what it adds to the work, beside another one of weight 1
	}{
		{"no bound", 0, 0, same(3, 10), math.MaxUint64 / 2, math.MaxUint64 / 2},
		{"max_weight alone", 100, 0, same(3, 10), 1000, 100},
		{"the ratio", 100, 8, same(3, 10), 1000, 80},
		{"max_weight is less", 50, 8, same(3, 10), 1000, 50},
		{"below both", 100, 8, same(3, 10), 79, 79},
		{"no step before: of their own median", 100, 8, nil, 1000, 8},
		{"of an even number the lower one", 0, 8, same(1, 10, 30), 1000, 80},
		{"one liar of three moves nothing", 0, 8, same(4, 10, 11, 1<<50), 1 << 50, 88},
		{"the newest 16", 0, 8, append(same(16, 1000), same(16, 10)...), 1 << 50, 80},
		{"17 steps ago", 0, 8, append(same(1, 10), same(16, 1000)...), 1 << 50, 8000},
		{"a product beyond 64 bits is no bound", 0, 1 << 16, same(1, 1<<56), 1 << 60, 1 << 60},
	} {
		chain := weighed(Rules{MaxWeight: c.max, MaxWeightRatio: c.ratio}, c.steps...)
		work := chain.Tip().Work
		if got := chain.WorkAfter(slot.Step, []slot.Offer{{Weight: c.weight}, {Weight: 1}}) - work; got != c.want+1 {
			t.Errorf("%s: %d, want %d", c.name, got, c.want+1)
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
		if err := chain.Check(r, 0); (err == nil) != c.ok {
			t.Errorf("founders %s, a founding by %s: %v", c.founders, c.members, err)
		}
	}
}

// A contribution of nothing earns no credit where members may lie, and adds no work. Others' are
// not touched by it, nor by a claim of a huge norm.
func TestEmptyContributionsEarnNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		norms [5]float64 // squared
		want  [5]uint16  // credit after four slots
	}{
		{"as much as each other", [5]float64{4, 4, 4, 4, 4}, [5]uint16{32, 32, 32, 32, 32}},
		{"a free rider", [5]float64{4, 0, 4, 4, 4}, [5]uint16{32, 0, 32, 32, 32}},
		{"next to nothing", [5]float64{4, 4, 3.9e-6, 4, 4}, [5]uint16{32, 32, 0, 32, 32}},
		{"two with huge values", [5]float64{1e200, 4, 4, 4, 1e200}, [5]uint16{32, 32, 32, 32, 32}},
		{"all converged", [5]float64{}, [5]uint16{32, 32, 32, 32, 32}},
	} {
		w := found(t, seatRules(1), "A0 b0 c0 d0 e0")
		for range 4 {
			r := w.record("abcde", seatElements)
			for i := range r.Contributions {
				r.Contributions[i].NormSq = c.norms[i]
			}
			r.Work = w.WorkAfter(slot.Step, r.Contributions)
			w.stay(r)
		}
		paid := uint64(0)
		for i, m := range w.Members() {
			if m.Credit != c.want[i] {
				t.Errorf("%s: %s has credit %d, want %d", c.name, m.Peer, m.Credit, c.want[i])
			}
			paid += uint64(c.want[i]) / contributionCredit
		}
		if w.Tip().Slot != 4 || w.Tip().Work != paid {
			t.Errorf("%s: work %d after slot %d, want %d", c.name, w.Tip().Work, w.Tip().Slot, paid)
		}
	}
}

// A record that names another usual weight than its chain has is invalid, and so is one of another
// kind that names one.
func TestRecordsStateTheUsualWeight(t *testing.T) {
	rules := seatRules(1)
	rules.MaxWeightRatio = 8
	w := found(t, rules, "A0 b0")
	usual := uint64(0)
	for range 3 {
		r := w.record("ab", seatElements)
		for i := range r.Contributions {
			r.Contributions[i].Weight = uint64(5 * (i + 1))
		}
		r.Work = w.WorkAfter(slot.Step, r.Contributions)
		for _, wrong := range []uint64{usual + 1, usual - 1} {
			r.Usual = wrong
			if why := w.stay(r); !strings.Contains(why, "usual weight") {
				t.Fatalf("a usual weight of %d, where it is %d: %s", wrong, usual, why)
			}
		}
		r.Usual = usual
		w.stay(r)
		usual = 5
	}
	if w.Tip().Slot != 3 {
		t.Fatal("the right usual weight is refused")
	}
	r := w.record("", 0)
	r.Usual = usual
	if why := w.stay(r); !strings.Contains(why, "with an outcome") {
		t.Errorf("a members record with a usual weight: %s", why)
	}
}
