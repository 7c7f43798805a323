// Package conduct says who contributes what, and in plain words whose contributions stand out. It
// is for people: nothing is decided by it, and nothing waits for it. A copy counts like any other
// contribution, for honest twins with the same data and seed are no liars.
//
//   - Owners publish figures of what they reduce (package figures): who points the other way than
//     the others, sends nothing new, or far larger values. Figures that do not come are missing.
//   - Records say what contributions claim to weigh, and their norms: whose weight is capped, and
//     who sends nothing.
//   - The hashes of frames are seen by those that reduce a part of the slot, this peer's own among
//     them: who sends the same bytes as another member, or what it has sent before. So both members
//     of a pair see it.
package conduct
