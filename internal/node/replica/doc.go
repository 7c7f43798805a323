// Package replica keeps one peer's copy of the model that a run trains, and does the work that the
// ledger asks of it (membership.Worker). All peers that hold the state after the same record hold
// the same bits.
//
// # What callers do
//
// Open a Replica with what it may read of the ledger, give it to membership.Driver.Start, and
// report the Position that it has restored. Offer a contribution in three steps: Encode a
// pseudo-gradient, Keep the result, report the offer to the driver. Read the anchor with Anchor or
// Follow. Hand it the streams that other peers open (AcceptExchange, ServeState). Close it after
// the driver.
//
// # The way of a slot
//
//	contribution -> reduction ->  outcome  -> outer step -> state root -> checkpoint
//	 Encode, Keep   WorkReduce    WorkHold    '-------- WorkApply ---------------'
//
// The ledger decides when each of them happens. The path from a certified record to the new state
// root is in apply.go, from top to bottom.
//
// # The parts
//
//	state          the anchor and the outer optimizer's vectors: changed by one job at a time
//	model          the state, and the checkpoints and outcomes on disk that it can be made from
//	contributions  what this peer has offered and no record has settled yet; error feedback
//	reductions     the reduction that runs, and the one before it that still sends to slow links
//	outcomes       gets the bytes of a slot's outcome on disk, from a reduction or from other peers
//	fetcher        gets a state that this peer did not make itself from other peers
//	jobs           runs at most one background job of each kind
//
// params.go says what a settled run spec means to a replica and to the reduction, memory.go how
// much memory that takes, and machine.go how much there is.
//
// An Archive is a model without a ledger or a network: it reads what a peer has left on disk.
package replica
