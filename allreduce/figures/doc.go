// Package figures says who contributes what, and in plain words whose contributions stand out. It
// is for people: nothing is decided by it, and nothing waits for it.
//
//   - Owners publish figures of what they reduce (slot.FigureRow). Sum sums them up; a Tracker says
//     who points the other way than the others, or sends far larger values.
//   - Records say what contributions claim to weigh, and their norms: whose weight is capped, and
//     who sends nothing.
//   - The hashes of frames are seen by those that reduce a part of the slot, this peer's own among
//     them: who sends the same bytes as another member, or what it has sent before. A copy counts
//     like any other contribution: two honest peers with the same data and seed are no liars.
//
// A Follower does all of it for one peer. All figures of a contributor are the medians over the
// owners: fewer than half of the owners cannot make an honest peer stand out.
package figures
