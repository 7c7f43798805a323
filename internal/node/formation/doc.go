// Package formation finds the run that a peer was asked to join: which run spec holds, and which
// peers share it. It says hello to every peer that discovery turns up.
//
// A peer that was given a run's name knows only some of its spec, so it cannot know the run ID yet.
// It adopts the spec of the run in sight. When the discovery window closes and nobody
// has one, the lowest ID among the peers that see each other settles its own, and the others adopt
// that. When a settled spec's run is founded is for the ledger to decide. A founder that stays
// alone gives its run up for another one that comes into sight.
//
// Callers make a Formation, Adopt the spec that is known from before if there is one, have Serve
// run until the node closes, and Await the spec. AwaitPreset then waits for the run's timing, and
// Introduce tells other peers this one's incarnation.
package formation
