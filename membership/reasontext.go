package membership

import (
	"fmt"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// voters is what those that decide are called: where only crashes are withstood, all members do.
func (f *facts) voters() string {
	if f.cfg.Rules.Byzantine {
		return "electors"
	}
	return "members"
}

// whyProvisional says in plain words why the chain is provisional, or a branch that is not the run:
// "" if it is the run.
func (f *facts) whyProvisional() string {
	p, is := f.chain.Provisional()
	if !is {
		return ""
	}
	n, lost := len(p.Electors), len(p.Missing)
	what := "provisional: the run"
	if p.Few {
		what = "a branch that is not the run: it"
	}
	quorum := f.cfg.Rules.Votes(n)
	missing := max(1, quorum-(n-lost))
	again := "are " + f.voters()
	if missing == 1 {
		again = map[string]string{"electors": "is an elector", "members": "is a member"}[f.voters()]
	}
	text := fmt.Sprintf("%s goes on with %d of the %d %s that it had at height %d; a quorum of them is %d. If %d of "+
		"them have decided otherwise, this branch will be given up. It is safe once %d more of these %s again: %s",
		what, n-lost, n, f.voters(), p.Height, quorum, quorum, missing, again, shortList(p.Missing))
	if !p.Few {
		text += "; or once the members have removed those that do not come back (p2pdiloco remove)"
	}
	return text
}

// shortList names a few members.
func shortList(members []slot.Member) string { return shortIDs(peersOf(members)) }

// shortIDs names a few peers.
func shortIDs(peers []slot.PeerID) string {
	var names []string
	for _, p := range peers[:min(len(peers), 8)] {
		names = append(names, p.Short())
	}
	if more := len(peers) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
