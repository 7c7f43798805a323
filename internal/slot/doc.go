// Package slot holds the plain types at the seam between agreement (membership) and reduction (allreduce): what is offered,
// planned, reduced, recorded and certified, with one canonical encoding and hash for each. It has no behaviour beyond that
// and imports neither side.
//
// Words: a peer makes an Offer of its contribution for a slot; the leader answers with a Plan (who contributes, who owns which
// segment); owners state each reduced Segment; the leader picks one per range into a Draft; the members agree on a Record, and
// the signatures of a quorum of the previous record's members are its Certificate.
//
// Encodings are the ones package wire describes: reading what Append wrote gives the value back, and appending what could be read
// gives the bytes back. docs/protocol.md spells them out, golden_test.go pins them. "HOLES Hn" in comments names the schedule in
// docs/holes.md that a rule is there for.
package slot
