// Package hostile makes a peer lie. It takes the ordinary node and changes what its ledger says,
// hears and works with, through internal/node/edge. So a hostile peer can sign anything with
// its own key, and sees all that its machine sees; it has no other peer's key.
//
//	kinds.go     the table of kinds: what they do, and what must come of it
//	judge.go     whether that came of it, by honest peers' events
//	liar.go      the seam: what goes out, what comes in, and when the attack begins
//	leading.go   leaders that plan unfairly, draft another record than they should, or do nothing
//	reducing.go  owners that state what is false, and peers that leave others without answers
//	contributing.go
//	             contributors of other values, other weights, or with two faces
//	auditing.go  electors that accuse falsely, ask for everything, or look at nothing
//	voting.go    members that hold back what they owe, or promise ballots that nobody needs
//
// Before the attack begins the peer does what every peer does, except that some kinds have timers
// of their own.
//
// Of the programs only p2plab has this package. Package chaos runs swarms of processes with such
// peers, and package internal/nodetest/hostile whole nodes in virtual time: both judge them here.
package hostile
