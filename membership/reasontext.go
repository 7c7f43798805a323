package membership

import (
	"fmt"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// whyProvisional says in plain words why the chain is provisional; "" if it is the run.
func (f *facts) whyProvisional() string {
	p, is := f.chain.Provisional()
	if !is {
		return ""
	}
	n, lost := len(p.Electors), len(p.Missing)
	quorum := f.cfg.Rules.Votes(n)
	return fmt.Sprintf("provisional: the run goes on with %d of the %d electors that it had at height %d; a "+
		"quorum of them is %d. If %d of them have decided otherwise, this branch will be given up. It is safe once "+
		"%d more of these have come back: %s; or once the members have removed those that do not come back "+
		"(p2pdiloco remove)", n-lost, n, p.Height, quorum, quorum, max(1, quorum-(n-lost)), shortList(p.Missing))
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
