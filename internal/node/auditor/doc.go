// Package auditor checks samples of outcomes for a node, and shows others the samples of its own
// contributions that they ask for.
//
// Before an elector gives HAVE for a step, the ledger asks for an audit (membership.WorkAudit):
//
//  1. Each frame of the outcome is compared with the norms that the contributors have committed to,
//     where this peer knows those of all.
//  2. Samples are drawn, which nobody can guess. Each contributor is asked for its part of them,
//     over one stream; the leader, where one does not answer.
//  3. What comes is checked against the contributor's offer, the outcome is computed again, and
//     compared with the owner's byte by byte. A block that differs makes a proof.
//
// The arithmetic and the proofs are those of package audit. Check is the ledger's side of them.
package auditor
