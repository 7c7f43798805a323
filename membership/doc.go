// Package membership keeps the slot ledger: a chain of records that says which peers take part in
// a run and what every outer step was. Each record is decided once, by the members that the record
// before it lists. A height is decided in two phases: HAVE says that a peer has checked the
// leader's record and holds its outcome. VOTE says that a quorum has said HAVE. The signatures of
// a quorum on their votes are a record's certificate, and no peer applies what is not certified.
// There is no centre: leaders change, any peer may die, and a peer that was away catches up from
// any other.
//
// # What callers do
//
// A Driver runs one peer's ledger. Its owner configures it, and does two things:
//
//		store, err := store.Open(disk.OS, dir, runID, 0, rand.Reader, logger)
//		d, err := membership.NewDriver(membership.DriverConfig{
//			Store: store, Signer: key, Transport: net,
//			Rules: rules, Timing: timing, Plan: planner, Verify: verify,
//		})
//		d.Report(membership.ReportApplied{…}) // if a model state is held
//		d.Start(ctx, worker)
//		defer store.Close() // after
//		defer d.Close()     // this
//
//	  - Hand every received message to Deliver, and everything that work led to, or that the node
//	    wants, to Report. Neither blocks.
//	  - In Worker.Do, report only what has happened: ReportHeld means that the bytes are on
//	    disk, synced.
//
// ReportOffer takes part in a slot; WaitView waits for its end, or for anything else that a View
// shows. Record and View answer for the chain and for status. If the store fails the driver stops,
// sends nothing more, and Err says why.
//
// # The loop
//
// The Machine decides and does nothing else: (state, input) -> (state, Ready), without goroutines,
// clock, disk or network. The Driver gives it inputs (Step, Report, Tick), and carries out each
// Ready in the one order that is safe: Persist on disk, then sign, then send, then Work and Events.
// Messages that the machine addresses to its own peer come back through Step once they are saved
// and signed, so a peer's own vote counts by the same path as any other's.
//
// # The parts of the machine
//
// Each part owns its state. It reads the facts (configuration, time, chain), writes what it wants
// done to the effects, and knows only the parts above it in this list:
//
//	presence*.go, reach.go, links.go   which peers are heard, which way and on which branch
//	evidence*.go, clones.go            members that contradict themselves; clones
//	quorum.go                          whether enough members are heard to decide anything
//	turnout.go                         which electors take no part in decisions
//	statements.go, drops.go            what proves that a member may be dropped
//	motions*.go                        what the members' operators want done about the membership
//	model.go                           which model state the worker holds, and which it fetches
//	own.go                             what this peer offers, and whether it stays
//	roster*.go                         which members stay, and which newcomers are listed
//	pledges.go                         promises and votes on disk, by position of the chain
//	falseclaims.go                     claims that are not believed for a while
//	catchup.go, nextheight.go          the records above the tip, and messages that come before them
//	fork*.go                           going on without a quorum
//	competing.go                       other branches of the run; chain.Better is the choice
//	founder.go, exit.go                a run's first record; the last slot and the closing record
//	announcer.go, news.go              ALIVE, JOIN and LEAVE; events about members
//	height.go                          the open height: all that is forgotten once it is decided
//	acceptor.go, following.go          PROMISE, PROPOSE, VOTE; the leader that is followed
//	history.go                         what recent slots took, and the grace window that follows
//	hiders.go, audits.go               who shows electors nothing; samples of outcomes
//	participant.go                     taking part in a reduction, over plans, ballots and leaders
//	planner*.go, resign.go             plans, their revisions, broken rings; ending the own term
//	drafter.go                         drafts and HAVE
//	pacemaker.go                       when a term is over, and which ballot is joined
//	leader.go                          leading
//	machine*.go                        the whole: inputs, outputs, and what takes several parts
//	reason*.go, view.go                what status shows
//
// Around it: wire/ (messages, entries and their bytes), chain/ (the records and all that follows
// from them alone), store/ (the log on disk), driver*.go, inbox.go (queues,
// signature checks, the loop), and statesync/ (how a state is fetched).
package membership
