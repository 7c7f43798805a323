package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// Kind names a way to disturb a swarm: a row of the table below.
type Kind string

// row says all of one kind of fault.
type row struct {
	kind Kind
	pick pick   // whom it hurts
	do   string // what is done: words of script.go, one after the other
	// The seed draws a number of slots, from the first value on, below the sum of the two; and
	// seconds between two bounds.
	slots, more uint64
	least, most float64
	down        who // who may be no member for some time
	marks       Mark
	help        string
}

// pick says whom a kind of fault hurts.
type pick int

const (
	anyone     pick = iota // one that no other fault hurts
	neighbours             // two of these, where so many may be down
	pair                   // two of these, who both stay up
	leader                 // whoever leads, at a moment of a slot
	newcomer               // a new peer
	all
	majority // so many that the others are no quorum
	side     // up to half, as drawn
	boot     // the bootstrap node
)

// who says whose place among the members a fault may cost.
type who int

const (
	nobody who = iota
	victims
	everybody
)

// Mark is what else is special about a kind.
type Mark int

// The marks.
const (
	alone      Mark = 1 << iota // it begins when nobody is hurt, and nothing else begins meanwhile
	branch                      // slots that were certified on a branch may be given up
	byName                      // a run has it only if it is asked for
	Links                       // it needs network namespaces
	Root                        // it mounts a disk
	Failpoints                  // it needs a program that has them
)

// Kinds that need more than what is in their row.
const (
	Failpoint Kind = "failpoint" // has a place, and one of four victims sleeps there
	End       Kind = "end"       // the last fault, wherever it is named: the run ends then
)

// rows are all kinds of faults.
var rows = []row{
	{
		"kill", anyone, "kill lasts start back", 0, 4, 0, 3, victims, 0,
		"kill -9 of a peer, which comes back with its data directory",
	},
	{
		"leader", leader, "kill lasts start back", 0, 4, 0, 3, victims, 0,
		"the same for the leader, at any moment of a slot",
	},
	{
		"restart", anyone, "term exited lasts start back", 0, 3, 0, 0, victims, 0,
		"SIGTERM, so that a peer leaves and comes back",
	},
	{
		"wipe", anyone, "kill lasts wipe start back", 0, 4, 0, 3, victims, 0,
		"kill -9, and the peer comes back without its data directory, as a new member",
	},
	{"stop", anyone, "stop lasts cont back", 1, 0, 1, 5, victims, 0, "SIGSTOP for a while"},
	{
		"all", all, "kill lasts start back", 0, 0, 0, 1, everybody, alone,
		"kill -9 of all peers at once; all come back",
	},
	{
		"bootstrap", boot, "kill-boot lasts start-boot", 3, 4, 1, 1, nobody, 0,
		"kill -9 of the bootstrap node, which comes back",
	},
	{"late", newcomer, "start back", 0, 0, 0, 0, nobody, 0, "a newcomer joins"},
	{
		"load", anyone, "burn advance lasts kill missed calm start back", 2, 4, 5, 9, victims, alone,
		"other processes take all processors; then kill -9 of a peer, which must be missed in time",
	},
	{
		"turns", majority, "kill advance others kill victims start advance others start back",
		0, 0, 0, 0, everybody, alone | branch,
		"most peers die; those that are left go on, and die; all come back, those that died first at first",
	},
	{
		End, anyone, "kill others finish victims start all exited start exited", 0, 0, 0, 0, victims, alone,
		"a peer is away while the run ends, and comes back; then all start once more",
	},
	{"cut", anyone, "cut lasts heal back", 1, 0, 1, 5, victims, Links, "a peer reaches nobody for a while"},
	{
		"partition", side, "part lasts fork unite back", 0, 0, 3, 8, everybody, alone | branch | Links,
		"two sides cannot reach each other: from one peer to half of them on one",
	},
	{
		"flap", anyone, "cut pause heal pause again back", 0, 0, 3, 6, victims, Links,
		"a peer's link goes down and up, each for 0.4 s",
	},
	{"slow", anyone, "slow lasts heal back", 0, 0, 3, 6, everybody, Links, "a peer's link becomes slow and long"},
	{
		"pair", pair, "pair lasts heal back", 0, 0, 3, 6, nobody, Links,
		"two peers cannot reach each other, and the others reach both",
	},
	{"loss", anyone, "lossy lasts heal back", 0, 0, 3, 6, everybody, Links, "a peer's link loses one packet in 50"},
	{
		"disk-full", anyone, "kill mount start back fill full unmount start back",
		0, 0, 0, 0, victims, alone | byName | Root,
		"a peer's disk gets full; it must end and say so, and comes back with room",
	},
	{
		"wipe-two", neighbours, "kill lasts wipe start back", 0, 4, 0, 3, victims, alone | byName,
		"wipe of two peers at once, or of one if no more may fail",
	},
	{
		"flap-pair", pair, "pair pause heal pause again back", 0, 0, 3, 6, nobody, byName | Links,
		"two peers reach each other, and do not, in turns",
	},
	{
		"one-way", anyone, "mute lasts heal back", 1, 0, 1, 5, victims, byName | Links,
		"what a peer sends reaches nobody, and it hears the others",
	},
	{
		Failpoint, anyone, "order reached lasts start back", 0, 3, 0, 3, victims, byName | Failpoints,
		"a peer crashes, or sleeps, at a place in its code, as between a vote on disk and its signature",
	},
}

func (w row) is(m Mark) bool { return w.marks&m != 0 }

// wipes says whether a fault takes its victims' data: they come back as new peers.
func (w row) wipes() bool { return strings.Contains(w.do, "wipe") }

// row is that of a kind, without words if there is none.
func (k Kind) row() row {
	for _, w := range rows {
		if w.kind == k {
			return w
		}
	}
	return row{}
}

// those are the kinds of which something holds.
func those(holds func(row) bool) (kinds lab.Names[Kind]) {
	for _, w := range rows {
		if holds(w) {
			kinds = append(kinds, w.kind)
		}
	}
	return kinds
}

// Kinds lists the kinds of faults that a run has unless others are named; without links, only
// those that need no network namespaces.
func Kinds(withLinks bool) lab.Names[Kind] {
	return those(func(w row) bool { return !w.is(byName) && (withLinks || !w.is(Links)) })
}

// Needing lists those kinds that have a mark.
func Needing(kinds lab.Names[Kind], m Mark) lab.Names[Kind] {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !k.row().is(m) })
}

// KindsHelp lists all kinds for people, a line for each.
func KindsHelp() string {
	var b strings.Builder
	for _, w := range rows {
		needs := ""
		if w.is(Links) {
			needs = " [root, iproute2]"
		} else if w.is(Root) {
			needs = " [root]"
		} else if w.is(Failpoints) {
			needs = " [tag failpoints]"
		}
		if w.is(byName) {
			needs += " [by name]"
		}
		fmt.Fprintf(&b, "  %-10s %s%s\n", w.kind, w.help, needs)
	}
	return b.String()
}
