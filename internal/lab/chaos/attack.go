package chaos

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Attack names what hostile peers do: package internal/lab/hostile does it.
type Attack string

// attack is how a kind of hostile peers takes part, and what must come of it.
type attack struct {
	name  Attack
	peers int      // hostile ones; 0: one
	late  bool     // they join a run under way; otherwise they are among its first members
	few   bool     // they join three founders, whom they outnumber, and stay newcomers
	idle  bool     // they have no trainer
	flags []string // that they join with beside those of all
	// what an honest peer says of them, one of all these: an event, or a finding or reason of one;
	// none: no need
	said  []string
	after int // deeds that it takes until that is said
	// different leaders under which a newcomer fails until it is left out; 0: it is not left out
	outUnder int
	// slots of the attack within which it is said, from the first one on; 0: at some time
	within uint64
	proof  bool // their signatures contradict each other: they are to be evicted
	// their promises may contradict their votes: then they are evicted, if an honest peer sees both
	mayProve bool

	// why the present code does not withstand it; empty: it does
	open string
}

// attacks are all kinds, with what is known of them.
var attacks = []attack{
	{name: "mute", said: []string{"mute"}, after: 17}, // two a height, for 8 and one more
	{name: "solo", said: []string{objected}, after: 1},
	{name: "early-close", flags: []string{"--pause", "10ms"}, said: []string{objected}, after: 1},
	{name: "grab", said: []string{objected}, after: 1},
	{name: "stall", said: []string{"no_record"}, after: 4},
	{name: "stall-own-terms", said: []string{"no_record"}, after: 4},
	{name: "hide-certificate", said: []string{"unshown_chain", "no_record"}, after: 6},
	{name: "silent-newcomer", peers: 3, late: true}, // so many make the next seats due
	{name: "picky-feed"},
	{name: "usurp", said: []string{"draft"}, after: 1},
	{name: "sybil", peers: 4, late: true, idle: true},
	{name: "equivocate", proof: true},
	{name: "forge-promise", mayProve: true, said: []string{"promise"}, after: 3},
	{name: "high-ballot", mayProve: true},
	{name: "heavy-fork", said: []string{"bad_chain"}, after: 1},
	{name: "bad-owner", proof: true, said: []string{evicted}, after: 1},
	{name: "bad-contributor", proof: true, said: []string{"unshown"}, after: 1},
	{name: "bad-auditor", said: []string{"false_proof"}, after: 8}, // after each of its ways
	{name: "flip", said: []string{"opposite"}, after: namedWithin, within: namedWithin},
	{name: "flip-10", said: []string{"too_large"}, after: namedWithin, within: namedWithin},
	{name: "scale", said: []string{"too_large"}, after: 6, within: namedWithin},
	{name: "noise", said: []string{"too_large"}, after: 6, within: namedWithin},
	{name: "zeros", said: []string{"zeros"}, after: 2, within: namedWithin},
	{name: "copy", peers: 2, said: []string{"same_bytes"}, after: 2, within: namedWithin},
	{name: "replay", said: []string{"sent_again"}, after: 2, within: namedWithin},
	{name: "weight", said: []string{"capped"}, after: 2, within: namedWithin},
	{name: "little"}, // such values are like an honest peer's
	{name: "inner-product", said: []string{"opposite"}, after: namedWithin + 1, within: namedWithin + 1},
	// newcomers take turns, one in a slot, and so many opposites hide each other
	{name: "strangers-flip", peers: 4, late: true, few: true},
	{name: "strangers-scale", peers: 4, late: true, few: true, said: []string{"too_large"}, after: 4 * 14},
	{name: "strangers-hide", peers: 3, late: true, said: []string{"unshown"}, after: 1, outUnder: 1},
	{name: "strangers-fail", peers: 3, late: true, said: []string{"failed"}, after: 1, outUnder: 2},
	{name: "voter-fail", said: []string{"failed"}, after: 1},
	{name: "equivocate-owners", proof: true, said: []string{"bad_bytes"}, after: 2},
}

// Contributors that send what can be told from honest values are named within so many slots.
const namedWithin = 10

// says whether an event about hostile peers says what is to be said of them.
func (a attack) says(l eventlog.Line) bool {
	return slices.ContainsFunc([]string{l.Event, l.Finding, l.Reason}, func(word string) bool {
		return slices.Contains(a.said, word)
	})
}

// Attacks lists the names of all kinds.
func Attacks() (names lab.Names[Attack]) {
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

// known lists the kinds that the present code is known not to withstand.
func known() (names lab.Names[Attack]) {
	for _, a := range attacks {
		if a.open != "" {
			names = append(names, a.name)
		}
	}
	return names
}

// attackOf is the entry of a name.
func attackOf(name Attack) attack {
	return attacks[slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })]
}

// drawThree draws three kinds, in the order of the table.
func drawThree(seed uint64) (names lab.Names[Attack]) {
	drawn := rand.New(rand.NewPCG(seed, 0x61_74_74_61_63_6b)).Perm(len(attacks))[:3]
	slices.Sort(drawn)
	for _, i := range drawn {
		names = append(names, attacks[i].name)
	}
	return names
}

// Words of --hostile and --known for several kinds.
const (
	allAttacks   = "all"
	threeAttacks = "three" // as the seed draws them
	knownAttacks = "table" // those that known lists
)

// ParseAttacks reads a list like "mute,grab" that a flag was given. "all" stands for all kinds,
// "three" for some that the seed draws, "table" for those that the present code is known not to
// withstand.
func ParseAttacks(flag, list string, seed uint64) (names lab.Names[Attack], err error) {
	for word := range strings.SplitSeq(list, ",") {
		some := lab.Names[Attack]{Attack(strings.TrimSpace(word))}
		switch {
		case some[0] == allAttacks:
			some = Attacks()
		case some[0] == threeAttacks:
			some = drawThree(seed)
		case some[0] == knownAttacks:
			some = known()
		case !slices.Contains(Attacks(), some[0]):
			return nil, sources.Faultf(flag, list, "%q is none of %v, %s, %s, %s", some[0], Attacks(), allAttacks,
				threeAttacks, knownAttacks)
		}
		for _, a := range some {
			if !slices.Contains(names, a) {
				names = append(names, a)
			}
		}
	}
	return names, nil
}
