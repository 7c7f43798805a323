package hostile

import (
	"maps"
	"slices"
)

// kinds are the ways to lie.
var kinds = map[string]func(*liar) habit{
	"mute":              mute,
	"solo":              solo,
	"early-close":       earlyClose,
	"grab":              grab,
	"stall":             stall,
	"stall-own-terms":   stallOwnTerms,
	"hide-certificate":  hideCertificate,
	"silent-newcomer":   silentNewcomer,
	"picky-feed":        pickyFeed,
	"heavy-fork":        heavyFork,
	"usurp":             usurp,
	"sybil":             sybil,
	"equivocate":        equivocate,
	"forge-promise":     forgePromise,
	"high-ballot":       highBallot,
	"bad-owner":         badOwner,
	"bad-contributor":   badContributor,
	"bad-auditor":       badAuditor,
	"flip":              scales(-1),
	"flip-10":           scales(-10),
	"scale":             scales(1e6),
	"zeros":             scales(0),
	"noise":             spoils("noise", noise),
	"replay":            replay,
	"copy":              spoils("what another one has offered", twin),
	"weight":            overweight,
	"equivocate-owners": twoFaces,
	"little":            guesses("a little beside the mean", little),
	"inner-product":     guesses("the opposite of half of the mean", innerProduct),
	"strangers-flip":    scales(-1),
	"strangers-scale":   scales(1e6),
	"strangers-hide":    hide,
	"strangers-fail":    fail,
	"voter-fail":        failForOthers,
}

// Kinds are the names of all kinds, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }
