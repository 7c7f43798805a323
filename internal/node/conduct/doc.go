// Package conduct says in plain words what is odd about the contributions of a run's members: that
// one is the same as another member's, or was sent before, that it has nothing in it, or claims an
// unusual weight. It is for people: nothing is decided by it. A copy counts like any other
// contribution, for honest twins with the same data and seed are no liars.
//
//	Took   takes in the record of each slot that is applied, with what contributions commit to
//	Words  what stands at the moment, of each member
//
// Everybody sees weights and norms, which are in the record. The hashes of frames are seen by those
// that reduce a part of the slot, this peer's own among them: so both members of a pair see that
// they sent the same bytes.
package conduct
