package chaos

import (
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Kind names a way to disturb a swarm.
type Kind string

// The kinds of faults.
const (
	Kill      Kind = "kill"      // kill -9 of a peer, which comes back with its data
	Leader    Kind = "leader"    // the same for the leader, in a given phase of a slot
	Restart   Kind = "restart"   // SIGTERM: the peer leaves, and comes back
	Wipe      Kind = "wipe"      // kill -9, and the peer comes back without its data: a new member
	Stop      Kind = "stop"      // SIGSTOP, for longer than the others wait
	All       Kind = "all"       // kill -9 of all at once; all come back
	Bootstrap Kind = "bootstrap" // kill -9 of the bootstrap node, which comes back
	Late      Kind = "late"      // a newcomer joins
	Cut       Kind = "cut"       // a peer reaches no other one
	Partition Kind = "partition" // two sides cannot reach each other
	Flap      Kind = "flap"      // a peer's link goes down and up again and again
	Slow      Kind = "slow"      // a peer's link becomes slow and long
)

// links are the kinds that change links, and so need network namespaces.
var links = []Kind{Cut, Partition, Flap, Slow}

// alone says whether a kind begins when no other fault is under way, and no other one begins before
// its end.
func (k Kind) alone() bool { return k == All || k == Partition }

var allKinds = lab.Names[Kind]{Kill, Leader, Restart, Wipe, Stop, All, Bootstrap, Late, Cut, Partition, Flap, Slow}

// Kinds lists the kinds of faults; without links, only those that need no network namespaces.
func Kinds(withLinks bool) lab.Names[Kind] {
	return slices.DeleteFunc(slices.Clone(allKinds),
		func(k Kind) bool { return !withLinks && slices.Contains(links, k) })
}

// ParseKinds reads a list like "kill,leader"; repeated kinds count once.
func ParseKinds(list string) (kinds lab.Names[Kind], err error) {
	for name := range strings.SplitSeq(list, ",") {
		k := Kind(strings.TrimSpace(name))
		if !slices.Contains(Kinds(true), k) {
			return nil, sources.Faultf("faults", list, "%q is none of %v", k, Kinds(true))
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// NeedLinks lists those kinds that need network namespaces.
func NeedLinks(kinds lab.Names[Kind]) lab.Names[Kind] {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !slices.Contains(links, k) })
}

// Phase is a part of a slot, from its leader's point of view.
type Phase string

// The phases of a slot.
const (
	PhaseIdle   Phase = "idle"   // inner steps
	PhasePlan   Phase = "plan"   // the reduction runs
	PhaseDraft  Phase = "draft"  // it asks which members hold the outcome
	PhaseVote   Phase = "vote"   // it asks for votes
	PhaseCommit Phase = "commit" // it has the certificate and passes it on
)

var phases = []Phase{PhaseIdle, PhasePlan, PhaseDraft, PhaseVote, PhaseCommit}
