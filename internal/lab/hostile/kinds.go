package hostile

import "slices"

// Kind is a way in which hostile peers take part, and what must come of it.
type Kind struct {
	Name string
	Does string // in words
	Cast
	makes func(*liar)
	Expected
}

// Cast is who hostile peers are. The zero value is one among the first members.
type Cast struct {
	Votes bool // until it has a vote it does what every peer does
	Peers int  // 0: one
	Late  bool // they join a run under way
	Few   bool // they join three founders, whom they outnumber, and stay newcomers
}

// Expected is what honest peers' events must say of an attack.
type Expected struct {
	// Named is an event about them of which one must come, or a finding or reason of one; none: no
	// need
	Named []string
	After int // deeds that it takes until it comes
	// Within how many slots of the attack it comes, from the first one on; 0: at some time
	Within   uint64
	Evicted  bool // they are, because a proof shows what they have done
	MayProve bool // they are, if an honest peer sees both of two signatures
	LeftOut  bool // what they contribute counts in no slot, from the one after their first deed on
	// Reductions are how many the attack may cost, beside the first, of a slot of it on average; 0:
	// usualReductions
	Reductions float64
}

// What attacks may cost a slot on average, beside the first: a term and a reduction. A liar may
// have a slot reduced again, and the leader whose draft it spoils resigns.
const (
	usualTerms      = 1
	usualReductions = 1
)

// namedWithin is within how many slots contributors are named that send what can be told from
// honest values.
const namedWithin = 10

// Events that say what honest peers know of hostile ones.
const (
	standsOut = "peer.stands_out"
	evicted   = "peer.evicted"
)

// named is expected where honest peers name what was done so often.
func named(after int, by ...string) Expected { return Expected{Named: by, After: after} }

// values is expected of contributors whose values stand out.
func values(finding string, after int) Expected {
	return Expected{Named: []string{finding}, After: after, Within: namedWithin}
}

var (
	alone     = Cast{}
	elector   = Cast{Votes: true}
	newcomers = Cast{Peers: 3, Late: true}

	unsaid = Expected{}
	proof  = Expected{Evicted: true, Named: []string{evicted}, After: 1}
	hidden = Expected{Named: []string{"unshown"}, After: 1, LeftOut: true}
)

// kinds are all of them.
var kinds = []Kind{
	// two a height, for 8 and one more; or it leads three terms in vain before
	{"mute", "says neither HAVE nor VOTE", elector, mute, named(17, "mute", "no_record")},
	{"solo", "as leader plans its own offer alone, at once", elector, solo, named(1, "draft")},
	{"grab", "as leader gives itself all segments to reduce", elector, grab, named(1, "plan")},
	{"stall", "as leader does nothing, and its counters rise", elector, stall, named(4, "no_record")},
	{
		"hide-certificate", "as leader collects votes and shows nobody the certificate",
		elector, hideCertificate, named(6, "unshown_chain", "no_record"),
	},
	{"picky-feed", "offers to one member alone", alone, pickyFeed, unsaid},
	{"usurp", "as leader drafts records that list nobody else", elector, usurp, named(1, "draft")},
	{
		"equivocate", "as leader drafts two records, each for half of the others",
		elector, equivocate,
		Expected{Evicted: true},
	},
	{
		"high-ballot", "names ballots far above those that are needed",
		elector, highBallot,
		Expected{MayProve: true},
	},
	{"owner-1", "signs the opposite of the contributions' outcome", alone, owns(-1, true), proof},
	{
		"owner-one-frame", "signs an outcome of which one frame is thirty times as long",
		alone, owns(30, false), proof,
	},
	{"hide", "gives owners its bytes, and shows auditors nothing", alone, hideBytes(false), hidden},
	{"show-other", "gives owners its bytes, and shows auditors other ones", alone, hideBytes(true), hidden},
	{"false-norms", "commits to norms that its frames do not have", alone, falseNorms, proof},
	{"false-total", "offers a norm that those of its frames do not add up to", alone, falseTotal, proof},
	// after each of its ways
	{
		"bad-auditor", "accuses everybody, asks for everything, or checks nothing, in turns",
		elector, badAuditor, named(8, "false_proof"),
	},
	{
		"deaf", "as auditor and leader hears nothing of what contributors show",
		elector, deaf,
		Expected{Reductions: 2},
	},
	{"flip", "contributes the opposite of what it has trained", alone, scales(-1), values("opposite", namedWithin)},
	{"flip-10", "contributes ten times the opposite", alone, scales(-10), values("too_large", namedWithin)},
	{"scale", "contributes a million times what it has trained", alone, scales(1e6), values("too_large", 6)},
	{"zeros", "contributes zeros", alone, scales(0), values("zeros", 2)},
	{
		"copy", "two peers that train once and contribute the same",
		Cast{Peers: 2},
		spoils(twin), values("same_bytes", 2),
	},
	{"replay", "contributes in each slot what it did in the first", alone, replay, values("sent_again", 2)},
	{"weight", "claims a weight of 2^50 tokens", alone, overweight, values("capped", 2)},
	// "a little is enough" (Baruch et al. 2019): such values are like an honest peer's
	{
		"little", "contributes what lies 1.5 standard deviations from what the others do, as it guesses",
		alone, guesses(1, -1.5), unsaid,
	},
	// inner product manipulation (Xie et al. 2020)
	{
		"inner-product", "contributes the opposite of half of the others' mean, as it guesses",
		alone, guesses(-.5, 0),
		Expected{Named: []string{"opposite"}, After: namedWithin + 1, Within: namedWithin + 1},
	},
	{
		"strangers-scale", "four strangers that contribute a million times what they have trained",
		Cast{Peers: 4, Late: true, Few: true},
		scales(1e6), named(4*14, "too_large"),
	},
	{
		"strangers-hide", "three strangers that offer, and show auditors nothing",
		newcomers, hideBytes(false), named(1, "unshown"),
	},
	// they are more than the f liars of D10: 41 in 40 slots
	{
		"strangers-fail", "three strangers that offer, and then fail each reduction",
		newcomers, fail,
		Expected{Named: []string{"failed"}, After: 1, Reductions: 2},
	},
	{"voter-fail", "fails each reduction that another one leads", elector, fail, named(1, "failed")},
	{
		"equivocate-owners", "gives owners other bytes than it has offered, then two offers",
		alone, twoFaces,
		Expected{Evicted: true, Named: []string{"bad_bytes"}, After: 2},
	},
}

// Kinds are all kinds.
func Kinds() []Kind { return slices.Clone(kinds) }

// Find is the kind of a name.
func Find(name string) (k Kind, known bool) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return k, false
	}
	return kinds[i], true
}
