// Package slot holds the plain types at the seam between agreement (membership) and reduction
// (allreduce): what is offered, planned, reduced, recorded and certified, with one canonical
// encoding and hash for each. It has no behaviour beyond that and imports neither side.
//
// A peer makes an Offer of its contribution for a slot. The leader answers with a Plan: which peers
// contribute, and which one owns which segment. Owners state each reduced Segment. The leader picks
// one statement for each range into a Draft. The members agree on a Record. The signatures of a
// quorum of the previous record's members are its Certificate.
//
// Encodings are the ones that package internal/wire describes: reading what Append wrote gives the
// value back, and appending what was read gives the bytes back. docs/spec/ledger.md has them,
// and golden_test.go pins them. "HOLES Hn" in comments names the schedule in
// docs/why/holes.md that a rule is there for.
package slot
