package nodetest

import (
	"slices"
	"strings"
	"testing"
)

// The table fails where a goal is missed, and no goal is missed by what need not be. Without this a
// goal that is too weak, or an exemption that is too wide, would be seen by nobody.
func TestGoals(t *testing.T) {
	base := honest{Spread: 0.01, Trials: []trial{{Seed: 1, Loss: 2}}}
	kind := func(name string) attack {
		return attacks[slices.IndexFunc(attacks, func(a attack) bool { return a.kind == name })]
	}
	late := func(n int) []string { return slices.Repeat([]string{"a bad peer is not named"}, n) }
	for name, c := range map[string]struct {
		attack string
		bad    int
		trial
		missed string // words of the first goal that is missed; empty: none is
	}{
		"owners cost their data": {"owner-1", 2, trial{Loss: 2.1, Left: 2.09, Named: 2, Evicted: 2}, ""},
		"owners cost more":       {"owner-1", 2, trial{Loss: 2.1, Left: 2.07, Named: 2, Evicted: 2}, "than leaving"},
		"three cost their data":  {"owner-1", 3, trial{Loss: 2.1, Left: 2.07, Named: 3, Evicted: 3}, ""},
		"three cost more":        {"owner-1", 3, trial{Loss: 2.1, Left: 2.05, Named: 3, Evicted: 3}, "than leaving"},
		"an owner stays":         {"owner-1", 2, trial{Loss: 2, Named: 2, Evicted: 1}, "evicted 1 of 2"},
		"auditors cost nothing":  {"bad-auditor", 1, trial{Loss: 2.01, Named: 1}, ""},
		"auditors cost something": {
			"bad-auditor", 1, trial{Loss: 2.03, Named: 1}, "more than honest peers, whose seeds differ by 1.00%",
		},
		"an auditor is not named":  {"bad-auditor", 1, trial{Loss: 2, Late: late(1)}, "is not named"},
		"an honest peer accused":   {"flip-10", 1, trial{Loss: 2, Named: 1, Accused: []string{"slot 5"}}, "accused"},
		"one of two opposites":     {"flip", 2, trial{Loss: 2, Named: 1, Late: late(1)}, "and 2 must be"},
		"one of three opposites":   {"flip", 3, trial{Loss: 2, Named: 1, Late: late(2)}, ""},
		"none of three opposites":  {"flip", 3, trial{Loss: 2, Late: late(3)}, "and 1 must be"},
		"named too late, of three": {"flip", 3, trial{Loss: 2, Named: 1, Late: late(3)}, "named"},
		"a little, by one":         {"little", 1, trial{Loss: 2, Late: late(1)}, ""},
		"a little, by two":         {"little", 2, trial{Loss: 2, Named: 1, Late: late(1)}, "and 2 must be"},
		"a little, by three":       {"little", 3, trial{Loss: 2, Named: 2, Late: late(1)}, ""},
		"two of three that shout":  {"flip-10", 3, trial{Loss: 2, Named: 2, Late: late(1)}, "is not named"},
	} {
		c.Seed, c.Lied = 1, c.bad
		w := row{Attack: c.attack, Bad: c.bad, Trials: []trial{c.trial}}
		w.sumUp(kind(c.attack), base)
		first := ""
		if len(w.Missed) > 0 {
			first = w.Missed[0]
		}
		if (c.missed == "") != (first == "") || !strings.Contains(first, c.missed) {
			t.Errorf("%s: missed %q", name, w.Missed)
		}
	}
}
