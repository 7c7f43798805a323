// Package hostile makes a peer lie. It takes the ordinary node and changes what its ledger says,
// hears and works with, through internal/node/testhooks. So a hostile peer can sign anything with
// its own key, and sees all that its machine sees; it has no other peer's key.
//
//	liar.go      the seam: what goes out, what comes in, and when the attack begins
//	kinds.go     the kinds by name
//	leading.go   leaders that plan unfairly, or do nothing
//	reducing.go  owners and contributors that state what is false, or hide it
//	contributing.go
//	             contributors of other values, other weights, or with two faces
//	strangers.go strangers that offer, and then show auditors nothing or fail the reduction
//	auditing.go  electors that accuse falsely, ask for everything, or look at nothing
//	glutton.go   how they ask for everything
//	voting.go    members and newcomers that hold back what they owe
//	bid.go       leaders that have another record decided than their ledger drafts, or two
//	promises.go  promises of what never was, and ballots that nobody needs
//	fork.go      a branch of its own, with a weight that nobody trained for
//
// Before the attack begins the peer does what every peer does, except that some kinds have timers
// of their own.
//
// Only p2plab has this package, and only where it was built with the tag hostile
// (cmd/p2plab/hostile_on.go). Package chaos runs the swarms and judges them.
package hostile
