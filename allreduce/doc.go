// Package allreduce combines the contributions of a group of peers into one outcome that is the
// same bits on all of them.
//
// A [slot.Plan] names the group (the peers with an offer) and gives each contiguous piece of the
// vector to one of them, its owner. In schedule rotation every peer sends every owner the raw
// frames of the owner's piece, the owner aggregates them coordinate by coordinate and sends the
// reduced frames back: 2(N-1)/N of the vector in and out of every peer, as in a ring, but the owner
// sees all N values, so any aggregator is exact.
//
// In schedule ring only neighbours have streams, and partial results pass from peer to peer
// (ring.go). A reduction has one of the two schedules, behind one interface (schedule.go).
//
// Two parts are kept apart:
//   - package plan is pure: parameters, the division of a vector, the choice of a schedule, and the
//     aggregation of one frame.
//   - the [Engine] moves frames over streams that a [Transport] opens and [Engine.Accept] takes in.
//
// The loop of a caller:
//
//	own, err := allreduce.Encode(params, fragment, self, values, buffer) // its Root goes into the offer
//	r, err := engine.Start(ctx, plan, own, sink)     // a later Start revises or replaces it
//	…                                                // sink is told of own ranges that are done, and of lost peers
//	bytes, done := r.Hold(ranges)                    // encoded, once the pieces of a range are complete
//	r.Retire()                                       // decided: peers on slow links still get the rest
//
// The data path of one piece in a rotation, with k contributors:
//
//  1. Contributor: one goroutine for each (piece, owner) writes hello, the hashes and norms of all
//     frames of the whole contribution, then raw frames in order, at most a window ahead of the
//     reduced frames that came back. Parallel over owners; at most a few write at once, those of
//     the next owners of the ring first.
//  2. Owner: one goroutine for each contributor reads, checks each frame against its hash, decodes
//     it, refuses NaN, Inf and 2^100 and more, and a norm that is not the one it was offered with.
//     Parallel over contributors.
//  3. Owner: one goroutine for each piece takes frame f of every contributor, in peer-ID order,
//     aggregates, encodes and hashes it into the result buffer. Sequential: the order of sums is
//     part of the outcome. Where a contributor is lost, a range ends and the next one begins
//     without it.
//  4. Owner: one goroutine for each contributor writes the reduced frames as they are ready, and
//     the piece's root at the end.
//  5. Contributor: one goroutine for each (piece, owner) reads reduced frames straight into the
//     result buffer and hashes them.
//
// No cycle of waiting is possible: an owner always has room for a frame that a contributor may send
// (the window is known to both from the plan), and a contributor always has room for a reduced
// frame.
//
// A peer's death costs its share (owner.go, revise.go): owners go on without it, and a revision of
// the plan gives its pieces to others, in place. Everything else that is under way goes on.
//
// A peer that is idle on a stream sends an alive message four times per [Config.Stall], with a
// count of the bytes it got. So a peer that hangs is told apart from one that waits for another
// peer. An owner names the contributor that it waits for.
//
// What a peer signs or votes is decided elsewhere, over roots: the bytes that came from an owner
// count only once their root is the one in the record. An owner that sends different bytes to
// different peers is found there.
package allreduce
