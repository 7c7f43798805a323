package report

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// AgreementStatus says which members can go on without the others at the run's present size, and
// how many liars that withstands.
type AgreementStatus struct {
	Trust    string `json:"trust"`    // crash | byzantine
	Electors int    `json:"electors"` // members that vote
	Quorum   int    `json:"quorum"`   // so many of them decide, whichever they are
	Liars    int    `json:"tolerated_liars"`
	Text     string `json:"text"` // the same in plain words
	// whom one has to trust besides, in plain words: whose vote was given and not earned, and what
	// the leader of a step and the operator of a peer can do
	Votes    string `json:"votes"`
	Leader   string `json:"leader"`
	Operator string `json:"operator"`
}

// AgreementOf returns what a run withstands with the electors that its newest record lists; nil if
// it lists none.
func AgreementOf(rules chain.Rules, tip slot.Record) *AgreementStatus {
	electors := tip.Electors()
	n := len(electors)
	if n == 0 {
		return nil
	}
	a := &AgreementStatus{Trust: spec.TrustCrash, Electors: n, Quorum: rules.Votes(n), Liars: rules.Liars(n)}
	a.Votes, a.Leader, a.Operator = votes(rules), leader(rules, a.Liars), anOperator
	voters := count(n, "elector")
	if all := len(tip.Members); all > n {
		voters += fmt.Sprintf(" of %d members", all)
	}
	goesOn := fmt.Sprintf("goes on while %s", living(rules, electors))
	switch {
	case !rules.Byzantine:
		a.Text = fmt.Sprintf("%s: %s, withstands no liar", count(n, "member"), goesOn)
	case a.Liars == 0:
		a.Trust, a.Text = spec.TrustByzantine, fmt.Sprintf("%s: no liar is tolerated, %s", voters, goesOn)
	default:
		a.Trust = spec.TrustByzantine
		a.Text = fmt.Sprintf("%s: withstands %d that %s, %s", voters, a.Liars,
			choose(a.Liars, "lies or is gone", "lie or are gone"), goesOn)
	}
	return a
}

// votes says who has a vote without having earned it.
func votes(rules chain.Rules) string {
	switch {
	case !rules.Byzantine:
		return "every member has one from the start: whoever is let in is trusted"
	case rules.StartPeers <= 1:
		return "the founder was given its own, and is trusted; others earn theirs by contributions"
	}
	return fmt.Sprintf("the first %d members were given theirs (start_peers), and are trusted; "+
		"others earn theirs by contributions", rules.StartPeers)
}

// leader says what the leader of a step can do, where so many liars are withstood.
func leader(rules chain.Rules, liars int) string {
	switch {
	case !rules.Byzantine:
		return "chooses by its word who is a member, and whose contributions count"
	case liars == 0:
		return "can harm the run, as any elector can where no liar is tolerated"
	}
	return "drops no member without proof; can leave out of its step who offered late, members without a vote, " +
		"and a third of the electors at most"
}

const anOperator = "can stop its own peers, and change what they say; to remove another peer takes a quorum"

// living says which electors must live.
func living(rules chain.Rules, electors []slot.Member) string {
	n := len(electors)
	senior := slot.Senior(electors).Peer.Short()
	switch {
	case n == 1:
		return "it lives"
	case n == 2:
		return fmt.Sprintf("the senior, %s, lives", senior)
	case rules.HalfDecides(n):
		return fmt.Sprintf("%d live, or %d with the senior, %s", rules.Votes(n), n/2, senior)
	}
	return fmt.Sprintf("%d live", rules.Votes(n))
}

func count(n int, what string) string { return fmt.Sprintf("%d %s%s", n, what, choose(n, "", "s")) }

func choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
