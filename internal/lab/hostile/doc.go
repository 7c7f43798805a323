// Package hostile makes a peer lie. It takes the ordinary node and changes what its ledger says,
// hears and works with, through internal/node/testhooks. So a hostile peer can sign anything with
// its own key, and sees all that its machine sees; it has no other peer's key.
//
//	kinds.go     the table of kinds: what they do, and what must come of it
//	judge.go     whether that came of it, by honest peers' events; leftout.go and share.go are about
//	             newcomers
//	liar.go      the seam: what goes out, what comes in, and when the attack begins
//	leading.go   leaders that plan unfairly, or do nothing
//	reducing.go  owners and contributors that state what is false, or show it to nobody
//	contributing.go
//	             contributors of other values, other weights, or with two faces
//	failing.go   contributors that offer, and then fail the reduction
//	auditing.go  electors that accuse falsely, ask for everything, or look at nothing
//	glutton.go   how they ask for everything
//	voting.go    members and newcomers that hold back what they owe
//	drafting.go  leaders that draft another record than they should, or two
//	promises.go  promises of what never was, and ballots that nobody needs
//	fork.go      a branch of its own, with a weight that nobody trained for
//
// Before the attack begins the peer does what every peer does, except that some kinds have timers
// of their own.
//
// Of the programs only p2plab has this package. Package chaos runs swarms of processes with such
// peers, and package internal/nodetest/hostile whole nodes in virtual time: both judge them here.
package hostile
