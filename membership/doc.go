// Package membership keeps the slot ledger: a chain of records, each decided once by the members that the record before it
// lists, that says who takes part in a run and what every outer step was. It is textbook Paxos, one decree a height; the
// signatures of a quorum are a record's certificate, and nobody applies what is not certified. There is no centre: leaders
// change, any peer may die, and who was away catches up from any other.
//
// # What callers do
//
// A Driver runs one peer's ledger. Its owner gives it five things and two habits:
//
//		store, err := membership.OpenStore(dir, runID, rand.Reader, logger)
//		d, err := membership.NewDriver(membership.DriverConfig{
//			Store: store, Signer: key, Transport: net, Worker: worker,
//			Rules: rules, Timing: timing, Plan: planner, Verify: verify,
//		})
//		d.Report(membership.ReportApplied{…}) // if a model state is held
//		d.Start(ctx)
//		defer store.Close() // after
//		defer d.Close()     // this
//
//	  - Hand every received message to Deliver, and everything that work led to, or that the node wants, to Report. Neither blocks.
//	  - In Worker.Do, keep the word that a report gives: ReportHeld means that the bytes are on disk, synced.
//
// ReportOffer takes part in a slot; WaitView waits for its end, or for anything else that a View shows. Record and View answer
// for the chain and for status. If the store fails the driver stops, sends nothing more, and Err says why.
//
// # The loop
//
// The Machine decides and does nothing else: (state, input) -> (state, Ready), without goroutines, clock, disk or network. The
// Driver gives it inputs (Step, Report, Tick), and carries out each Ready in the one order that is safe: Persist on disk, then
// sign, then send, then Work and Events. Messages that the machine addresses to its own peer come back through Step once they
// are saved and signed, so a peer's own vote counts by the same path as any other's.
//
// # Where the rules are
//
//	message.go, seam.go            what is said, saved, asked for and reported; the interfaces around the driver
//	encode.go, envelope.go         canonical bytes, signatures
//	machine*.go, view.go           the machine's inputs and outputs
//	chain*.go, rival*.go           the certified records; what a valid one is; two branches meet
//	fork.go                        going on without a quorum
//	evidence.go, clone.go          who contradicts itself; an identity that is used twice
//	decree.go, acceptor.go         the height being decided; PREPARE, PROMISE, PROPOSE, VOTE
//	ballot.go                      patience with a leader, and the end of it
//	leader*.go                     plans and their revisions, drafts, proposals, certificates; leader_ring.go: a ring that breaks
//	contributor.go, state.go       offers, HAVE; which model state is held
//	group.go                       taking part in a reduction, over plans, ballots and leaders
//	founding.go, catchup.go        a run's first record; joining it, and coming back to it
//	presence.go, alive.go          who is heard;  reason.go: why it is waiting
//	ending.go                      the last slot and the closing record
//	store*.go                      the log on disk: what must be there before what is sent
//	driver*.go, inbox.go           the shell: queues, signature checks, how many questions are answered, the loop
//	statesync/                     how a state is fetched
package membership
