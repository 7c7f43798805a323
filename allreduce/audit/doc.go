// Package audit checks what an owner has reduced, from bytes that the contributors show, and proves
// who has lied. It is pure: no network, clock or randomness of its own.
//
// A signed offer commits to a contribution: by its root, which is a tree over the hash and the
// squared norm of each frame. A signed segment commits to an outcome, frame by frame. Kernels give
// the same bits everywhere. So whoever has the bytes of all contributors at some coordinates can
// tell what the outcome must be there, and whoever has them with their paths can prove it.
//
// The loop of an auditor:
//
//	seg, err := audit.New(params, statement)   // what an owner has signed, with the contributors' offers
//	seg.Bound(norms)                           // no honest frame is longer: a look at the outcome alone
//	for _, sample := range seg.Samples(n, rnd) {
//		…                                      // ask each contributor for its Opening of sample.Range
//		want, err := seg.Recompute(sample.Range, openings)
//		block, differs := seg.Compare(sample.Range, want, got)
//		proof, err := seg.ProveOutcome(block, openings, outcome) // if it differs
//	}
//
// A contributor answers with OpenContribution. An owner, or anybody who holds the outcome, answers
// with Segment.OpenOutcome. An Opening is believed because it leads to a signed root, so it does
// not matter who has passed it on. An Opening that shows a fault of the contributor itself (a
// Fault that is Proven) becomes a proof by ProveContribution. ProveFrame makes a proof of a bad
// frame that an owner was sent, and ProveTotal one of norms of frames that do not add up to the
// norm in the offer.
//
// A Proof can be checked by everybody, alone, in less than a millisecond, and is small: one block
// of each contributor, or one frame. It holds no signatures. It names what was signed: the caller
// must check that the owner has signed the segment and the contributors their offers, or that the
// guilty one has signed the offer, as they stand in the proof. Without that it proves nothing.
package audit
