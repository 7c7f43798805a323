// Package auditor checks samples of outcomes for a node, and shows others the samples of its own
// contributions that they ask for.
//
//  1. When an owner has signed a segment (membership.WorkSample), samples of it are drawn, which
//     nobody can guess. Each contributor is asked for its part of them, over one stream for all
//     segments of a slot. What comes is checked against the contributor's offer.
//  2. Before an elector gives HAVE for a step, the ledger asks for an audit (membership.WorkAudit).
//     Each frame of the outcome is compared with the norms that the contributors have committed
//     to, where this peer knows those of all. What is missing of the samples is asked for again,
//     and from the leader, where a contributor does not answer.
//  3. The outcome is computed again from the samples, and compared with the owner's byte by byte. A
//     block that differs makes a proof.
//  4. If the slot is decided before an audit has compared its samples, they are compared then, as
//     far as they were shown. The record stands; a proof evicts the owner (ReportFalseStatement).
//
// The arithmetic and the proofs are those of package audit. Check is the ledger's side of them.
package auditor
