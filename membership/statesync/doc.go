// Package statesync brings a peer to the state of the run while the others go on. A peer that joins
// late fetches a checkpoint whose root a certified record names. A peer that missed an outcome
// fetches its segments.
//
// # Fetching
//
// Make a [Client] with an [Opener] and call FetchState or FetchOutcome. Both cut what they want
// into pieces and fetch these from several donors at once:
//
//  1. FetchState first asks all peers which checkpoints they hold, and picks the newest wanted one
//     that enough of them hold (survey.go).
//  2. A swarm gives pieces to workers, a few for each donor, and collects their results (swarm.go).
//  3. Each worker fetches one piece at a time over one stream and verifies it (worker.go, conn.go):
//     a piece of a state against the state's root (bao, package checkpoint), the frames of a
//     segment against the segment's root.
//  4. Verified pieces go into the store or into memory.
//
// No donor has to be trusted. A donor that lies, stalls or dies is dropped and named in the
// [Report], and its pieces go to others. A donor gets its next piece when it has delivered the last
// one, so fast donors deliver more. Peers are asked in random order, and a slow donor gives its
// place to a peer that waits for one. Where all donors of a state are slow, the fetch looks whether
// another state would be here much sooner (lookout.go). A fetch of a state that was interrupted is
// taken up by the next one of the process.
//
// # Serving
//
// Make a [Server] over a checkpoint store and give its Serve every incoming stream. Peers that
// ServerConfig.Prefer does not name get at most half of the streams, and a stream that asks for
// nothing makes room for others (admission.go). Newcomers get a limited number of bytes an hour
// (quota.go).
//
// # Protocol
//
// A stream carries a sequence of requests of fixed size; each is answered by blocks (proto.go). A
// block travels compressed where a sample of it shows that this pays (compress.go).
package statesync
