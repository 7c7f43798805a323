// Package round does the rounds of one peer: inner steps, and what becomes of them.
//
//	trainer -> pseudo-gradient -> codec -> all-reduce -> record -> outer step -> trainer
//
// Where to look:
//
//	round.go    one round, from start to landing: the data flow in one file
//	mode.go     what a mode of a run decides; sync.go, overlapped.go (delayed and eager), async.go
//	            and streaming.go are the five modes, each with its equations and its paper
//	ownloop.go   the same round for a program that keeps its own training loop
//	gradient.go the pseudo-gradient, of which each frame is subtracted when it is encoded
//	train.go    the task of the next slot, and its inner steps; they end early when the slot closes
//	inflight.go the contribution that is reduced while the next inner steps run
//	model.go    what a round needs of the live parameters: of a trainer's model, or of a caller's
//	            vector
//	rate.go     how fast this peer's inner steps are
//
// # What callers do
//
// Make a Loop with New, from a ledger (membership.Driver) and a replica. Then call Run, which
// drives a trainer.Trainer to the end of the run, or Anchor and then Sync after every round of the
// caller's own inner steps. Both go through the same code. The ledger and the replica work beside
// the loop, whether it is called or not.
package round

import "errors"

// Conditions that callers may want to tell apart with errors.Is. Package p2pdiloco says when each
// is returned.
var (
	ErrRunEnded = errors.New("p2pdiloco: the run has ended")
	ErrMissed   = errors.New("p2pdiloco: the run is over, and no peer that holds its final model answers: start one " +
		"that has it, or ask for its export")
	ErrLength    = errors.New("p2pdiloco: a vector of the wrong length")
	ErrNoAnchor  = errors.New("p2pdiloco: no anchor to start from: call Anchor first")
	ErrRoundOpen = errors.New("p2pdiloco: the round that was begun is not finished: call Finish first")
	ErrNoRound   = errors.New("p2pdiloco: the round is finished already: begin the next one")
)
