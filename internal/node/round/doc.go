// Package round does the rounds of one peer: inner steps, and what becomes of them.
//
//	trainer -> pseudo-gradient -> codec -> all-reduce -> record -> outer step -> trainer
//
// Where to look:
//
//	round.go    one round, from start to landing: the data flow in one file
//	mode.go     what a mode of a run decides; sync.go, delayed.go, eager.go, async.go and
//	            streaming.go are the five modes, each with its equations and its paper;
//	            overlapped.go is what delayed, eager and async share
//	caller.go   the same round for a program that keeps its own training loop
//	border.go   waits for the next slot, and makes its task
//	train.go    the inner steps of a task; they end early when its slot closes
//	inflight.go the contribution that is reduced while the next inner steps run
//	live.go     what a round needs of the live parameters: of a trainer's model (model.go), or of
//	            a caller's vector
//	rate.go     how fast this peer's inner steps are; pace.go: how many to do in a round
//
// # What callers do
//
// Make a Loop with New, from a ledger (membership.Driver) and a replica. Then call Run, which
// drives a trainer.Trainer to the end of the run, or Anchor and then Sync after every round of the
// caller's own inner steps. Both go through the same code. The ledger and the replica work beside
// the loop, whether it is called or not.
package round
