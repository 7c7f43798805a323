// Package statesync brings a peer to the run's state without anyone stopping: a late joiner fetches a checkpoint whose
// root a certified record names, and whoever missed an outcome fetches its segments.
//
// Both come in small pieces from all peers that have them, side by side, and every piece is verified as it arrives: a
// state's against its root (bao, package checkpoint), a segment's frames against the segment's root. So no donor
// needs to be trusted. One that lies, stalls or dies is dropped and named in the Report, and its pieces go to others;
// fast donors are asked more than slow ones, because a donor gets its next piece when it has delivered the last. A state fetch
// that is interrupted, even by the end of the process, is taken up by the next one.
//
// A Server answers from a checkpoint store: give its Serve every incoming stream. Peers that ServerConfig.Prefer does not name
// get half of its streams, and who holds one without asking for anything makes room for others (admission.go). A Client opens streams through an
// Opener. The protocol (proto.go) is a sequence of fixed requests on one stream, each answered by blocks; a block
// travels compressed where a sample of it shows that this pays (compress.go).
package statesync
