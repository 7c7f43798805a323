// Package admission keeps a private run private, and carries the motions of this peer's operator
// about the peers that may be in a run.
//
// # What callers do
//
// Callers Find the Credentials that a peer has before it connects to others: secrets, a ticket, or
// a new secret if it founds the run. They make a Guard of the credentials once the network exists,
// and set it as the network's gatekeeper. They set the run's ID (SetRun) when it is known, and wait
// until the run's members admit this peer (Await). From then on:
//
//   - the ledger's access work calls Candidate, Hold and Follow (replica.Keyring);
//   - Announce tells other peers which tokens were used, and Learn takes in what they tell;
//   - NewToken makes what a ticket admits newcomers with.
//
// # What must hold
//
// A secret is on disk before it is used or proposed, and no secret that a record may name is lost.
// At every moment each secret is in one of the two files admission.secret and admission.next. A
// secret that is not in force goes to no peer that the record removes.
//
// Package proof has the arithmetic and the messages: how peers prove to each other that they belong
// to the run.
//
// Motions do not depend on secrets: open runs have them, too.
package admission
