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
	// ErrRunEnded is returned by Sync when the run's last slot has been applied.
	ErrRunEnded = errors.New("p2pdiloco: the run has ended")
	// ErrMissed is returned where the run has ended, its final model is not here, and no peer that holds it has been heard for long.
	ErrMissed = errors.New("p2pdiloco: the run is over, and no peer that holds its final model answers: start one that has it, or ask for its export")
	// ErrNotFinite is returned when a pseudo-gradient holds a NaN, an infinity, or a value of 2^100 (about 1.3e30) or more in
	// magnitude: such a contribution is never offered.
	ErrNotFinite = errors.New("p2pdiloco: the pseudo-gradient is not finite")
)

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
