package p2pdiloco

import (
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/node/life"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Conditions that callers may want to tell apart with errors.Is.
var (
	// ErrClosed is returned by calls on a node that was closed. It unwraps to net.ErrClosed.
	ErrClosed = life.ErrClosed
	// ErrCloned ends a node whose identity another process uses at the same time, or whose data
	// directory is an old copy.
	ErrCloned = errors.New("p2pdiloco: the identity is used twice")
	// ErrRemoved ends a node that the members have removed from the run.
	ErrRemoved = errors.New("p2pdiloco: the members have removed this peer from the run: it can take part again once " +
		"a quorum of them has readmitted it (p2pdiloco readmit PEER)")
	// ErrOrder is wrapped by the reasons why Remove, Readmit or RotateSecret cannot be asked for.
	ErrOrder = admission.ErrMotion
	// ErrTicket is wrapped where an invitation (Config.Ticket) cannot be used any more, or is for
	// another run.
	ErrTicket = admission.ErrTicket
	// ErrQuorum is returned by Recover while the members can decide.
	ErrQuorum = errors.New("p2pdiloco: the members can decide by themselves: there is nothing to recover from")
	// ErrRunEnded is returned by Anchor, Sync and Finish when the run's last slot has been applied.
	ErrRunEnded = round.ErrRunEnded
	// ErrMissed is returned where the run has ended, its final model is not here, and no peer that
	// holds it has been heard for long.
	ErrMissed = round.ErrMissed
	// ErrLength is returned where a vector of the caller has another number of elements than the
	// run's model.
	ErrLength = round.ErrLength
	// ErrNoAnchor is returned by Begin and Sync before there was an anchor: there is nothing yet
	// that params could have grown from.
	ErrNoAnchor = round.ErrNoAnchor
	// ErrRoundOpen is returned by Anchor, Begin and Sync between Begin and Finish.
	ErrRoundOpen = round.ErrRoundOpen
	// ErrNoRound is returned by Finish for a round that is finished already.
	ErrNoRound = round.ErrNoRound
	// ErrNotFinite is returned when a pseudo-gradient holds a NaN, an infinity, or a value of 2^100
	// (about 1.3e30) or more in magnitude: such a contribution is never offered.
	ErrNotFinite = trainer.ErrNotFinite
)

// TrainerError says in which of its calls a Trainer failed. The run goes on without this peer:
// Leave it.
type TrainerError = trainer.Error
