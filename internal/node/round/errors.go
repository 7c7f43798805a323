package round

import (
	"errors"
)

// Conditions that callers may want to tell apart with errors.Is.
var (
	// ErrRunEnded is returned by Anchor, Sync and Finish when the run's last slot has been applied.
	ErrRunEnded = errors.New("p2pdiloco: the run has ended")
	// ErrMissed is returned where the run has ended, its final model is not here, and no peer that
	// holds it has been heard for long.
	ErrMissed = errors.New("p2pdiloco: the run is over, and no peer that holds its final model answers: start one " +
		"that has it, or ask for its export")
	// ErrLength is returned where a vector of the caller's has not as many elements as the run's
	// model.
	ErrLength = errors.New("p2pdiloco: a vector of the wrong length")
	// ErrNoAnchor is returned by Begin and Sync before there was an anchor: there is nothing yet
	// that params could have grown from.
	ErrNoAnchor = errors.New("p2pdiloco: no anchor to start from: call Anchor first")
	// ErrRoundOpen is returned by Anchor, Begin and Sync between Begin and Finish.
	ErrRoundOpen = errors.New("p2pdiloco: the round that was begun is not finished: call Finish first")
	// ErrNoRound is returned by Finish for a round that is finished already.
	ErrNoRound = errors.New("p2pdiloco: the round is finished already: begin the next one")
)
