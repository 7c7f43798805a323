package chaos

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/node/conduct"
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
	// what an honest peer's events about them are to have, one of all these; none: no need
	finding []figures.Kind // of peer.stands_out
	event   string         // its name
	said    []string       // words, where no field says it yet
	after   int            // deeds that it takes until that is said
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
	{name: "mute", said: []string{"not voted"}, after: 17}, // two a height, for 8 and one more
	{name: "solo", event: objected, after: 1},
	{name: "early-close", flags: []string{"--pause", "10ms"}, event: objected, after: 1},
	{name: "grab", event: objected, after: 1},
	{name: "stall", said: []string{"has led"}, after: 4},
	{name: "stall-own-terms", said: []string{"has led"}, after: 4},
	{name: "hide-certificate", said: []string{"that it claims is not shown", "has led"}, after: 6},
	{name: "silent-newcomer", peers: 3, late: true}, // so many make the next seats due
	{name: "picky-feed"},
	{name: "usurp", said: []string{"its draft is refused"}, after: 1},
	{name: "sybil", peers: 4, late: true, idle: true},
	{name: "equivocate", proof: true},
	{name: "forge-promise", mayProve: true, said: []string{"its promise is refused"}, after: 3},
	{name: "high-ballot", mayProve: true},
	{name: "heavy-fork", said: []string{"a fork by 1 of"}, after: 1},
	{name: "bad-owner", proof: true, event: evicted, after: 1},
	{name: "bad-contributor", proof: true, said: []string{"does not show electors"}, after: 1},
	{name: "bad-auditor", said: []string{"proves nothing"}, after: 8}, // after each of its ways
	{name: "flip", finding: opposite, after: namedWithin, within: namedWithin},
	{name: "flip-10", finding: tooLarge, after: namedWithin, within: namedWithin},
	{name: "scale", finding: tooLarge, after: 6, within: namedWithin},
	{name: "noise", finding: tooLarge, after: 6, within: namedWithin},
	{name: "zeros", finding: []figures.Kind{conduct.Zeros}, after: 2, within: namedWithin},
	{name: "copy", peers: 2, finding: []figures.Kind{conduct.SameBytes}, after: 2, within: namedWithin},
	{name: "replay", finding: []figures.Kind{conduct.SentAgain}, after: 2, within: namedWithin},
	{name: "weight", finding: []figures.Kind{conduct.Capped}, after: 2, within: namedWithin},
	{name: "little"}, // such values are like an honest peer's
	{name: "inner-product", finding: opposite, after: namedWithin + 1, within: namedWithin + 1},
	// newcomers take turns, one in a slot, and so many opposites hide each other
	{name: "strangers-flip", peers: 4, late: true, few: true},
	{name: "strangers-scale", peers: 4, late: true, few: true, finding: tooLarge, after: 4 * 14},
	{name: "strangers-hide", peers: 3, late: true, said: []string{"does not show"}, after: 1, outUnder: 1},
	{name: "strangers-fail", peers: 3, late: true, said: []string{"failed in the reduction"}, after: 1, outUnder: 2},
	{name: "voter-fail", said: []string{"failed in the reduction"}, after: 1},
	{name: "equivocate-owners", proof: true, said: []string{"may not be used"}, after: 2},
}

// Contributors that send what can be told from honest values are named within so many slots.
const namedWithin = 10

var (
	tooLarge = []figures.Kind{figures.TooLarge}
	opposite = []figures.Kind{figures.Opposite}
)

// says whether an event about hostile peers says what is to be said of them.
func (a attack) says(l eventlog.Line) bool {
	return l.Event == a.event || l.Event == standsOut && slices.Contains(a.finding, figures.Kind(l.Finding)) ||
		slices.ContainsFunc(a.said, func(word string) bool { return strings.Contains(l.Detail, word) })
}

// wants is what says looks for.
func (a attack) wants() (all []string) {
	all = slices.Clone(a.said)
	if a.event != "" {
		all = append(all, a.event)
	}
	for _, f := range a.finding {
		all = append(all, string(f))
	}
	return all
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
