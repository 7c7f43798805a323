package hostile

import (
	"maps"
	"slices"
)

// kinds are the ways to lie.
var kinds = map[string]func(*liar) habit{
	"mute":             mute,
	"solo":             solo,
	"early-close":      earlyClose,
	"grab":             grab,
	"stall":            stall,
	"stall-own-terms":  stallOwnTerms,
	"hide-certificate": hideCertificate,
	"silent-newcomer":  silentNewcomer,
	"picky-feed":       pickyFeed,
	"heavy-fork":       heavyFork,
	"usurp":            usurp,
	"sybil":            sybil,
	"equivocate":       equivocate,
	"forge-promise":    forgePromise,
	"high-ballot":      highBallot,
	"bad-owner":        badOwner,
	"bad-contributor":  badContributor,
	"bad-auditor":      badAuditor,
}

// Kinds are the names of all kinds, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }
