package p2pdiloco

import (
	"errors"
	"fmt"
	"net"
)

// Conditions that callers may want to tell apart with errors.Is.
var (
	// ErrClosed is returned by calls on a node that was closed. It unwraps to net.ErrClosed.
	ErrClosed = fmt.Errorf("p2pdiloco: node is closed: %w", net.ErrClosed)
	// ErrCloned ends a node whose identity another process uses at the same time, or whose data directory is an old copy.
	ErrCloned = errors.New("p2pdiloco: the identity is used twice")
	// ErrRunEnded is returned by Anchor, Sync and Finish when the run's last slot has been applied.
	ErrRunEnded = errors.New("p2pdiloco: the run has ended")
	// ErrTicket is wrapped where an invitation (Config.Ticket) cannot be used any more, or is for another run.
	ErrTicket = errors.New("p2pdiloco: the ticket is refused")
	// ErrMissed is returned where the run has ended, its final model is not here, and no peer that holds it has been heard for long.
	ErrMissed = errors.New("p2pdiloco: the run is over, and no peer that holds its final model answers: start one that has it, or ask for its export")
	// ErrLength is returned where a vector of the caller's has not as many elements as the run's model.
	ErrLength = errors.New("p2pdiloco: a vector of the wrong length")
	// ErrNoAnchor is returned by Begin and Sync before there was an anchor: there is nothing yet that params could have grown from.
	ErrNoAnchor = errors.New("p2pdiloco: no anchor to start from: call Anchor first")
	// ErrRoundOpen is returned by Anchor, Begin and Sync between Begin and Finish.
	ErrRoundOpen = errors.New("p2pdiloco: the round that was begun is not finished: call Finish first")
	// ErrNoRound is returned by Finish for a round that is finished already.
	ErrNoRound = errors.New("p2pdiloco: the round is finished already: begin the next one")
	// ErrNotFinite is returned when a pseudo-gradient holds a NaN, an infinity, or a value of 2^100 (about 1.3e30) or more in
	// magnitude: such a contribution is never offered.
	ErrNotFinite = errors.New("p2pdiloco: the pseudo-gradient is not finite")
)

// TrainerError says in which of its calls a Trainer failed. The run goes on without this peer: Leave it.
type TrainerError struct {
	Call string // "load", "evaluate", "export", "init", or the slot it trained for
	Err  error
}

func (e *TrainerError) Error() string { return "trainer: " + e.Call + ": " + e.Err.Error() }

// Unwrap is the trainer's own error.
func (e *TrainerError) Unwrap() error { return e.Err }

// faultError is why a node ended by itself. It is ErrClosed, too, which need not be said.
type faultError struct{ error }

func (e faultError) Unwrap() error        { return e.error }
func (e faultError) Is(target error) bool { return errors.Is(ErrClosed, target) }

// SpecError says that a peer's run spec and the fields given here differ, or that a field has a wrong value.
type SpecError struct {
	Field string // as in the TOML file
	Here  string
	There string // empty if the value itself is wrong
	Peer  PeerID // whose spec it is; empty if the value itself is wrong, or the spec is one kept on disk
	Why   string
}

func (e *SpecError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("run spec: %s = %s: %s", e.Field, e.Here, e.Why)
	}
	who := ""
	if e.Peer != "" {
		who = " (says peer " + e.Peer.String() + ")"
	}
	advice := "leave the field out to adopt the run's value, or use another run name"
	switch e.Field {
	case "layout":
		advice = "give the trainer the run's model sizes, or use another run name"
	case "init":
		advice = "the run began with another model: leave the model file out to take part in it, or use another run name"
	case "name":
		advice = "the directory belongs to that run: use another one"
	}
	return fmt.Sprintf("run spec: %s is %s here, but %s in the run%s: %s", e.Field, e.Here, e.There, who, advice)
}
