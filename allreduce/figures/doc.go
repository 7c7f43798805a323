// Package figures sums up what owners publish of who contributed what (slot.FigureRow), and says in
// plain words whose contributions stand out. It is for people that watch a run: nothing is decided
// by it. It is pure: no network, clock or randomness of its own.
//
//	published := figures.Sum(params, slot, segments) // of one slot, from the rows of all owners
//	changes := tracker.Add(slot, published, members) // findings that begin or end
//	tracker.Findings()                               // those that hold
//
// # What a lying owner can do
//
// What owners publish is partly proven by audits (package audit): norms and products with the
// outcome. All figures of a contributor are the medians over the owners: fewer than half of the
// owners cannot make an honest peer stand out.
package figures
