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
