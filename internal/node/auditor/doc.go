// Package auditor checks samples of outcomes for a node, and shows others the samples of its own
// contributions that they ask for.
//
//  1. Before an elector gives HAVE for a step, the ledger asks for an audit (membership.WorkAudit).
//     Samples of each segment are drawn, which nobody can guess. Each contributor is asked for its
//     part of them, over one stream. What comes is checked against the contributor's offer.
//  2. Each frame of the outcome is compared with the norms that the contributors have committed to,
//     where this peer knows those of all. A frame beyond its bound is asked for, too.
//  3. The outcome is computed again from the samples, and compared with the owner's byte by byte. A
//     block that differs makes a proof.
//
// The arithmetic and the proofs are those of package audit. Check is the ledger's side of them.
package auditor
