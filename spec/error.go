package spec

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Error says that a peer's run spec and the fields given here differ, or that a field has a
// wrong value.
type Error struct {
	Field string // as in the TOML file
	Here  string // the value given here
	There string // the run's value; empty if the value here is wrong by itself
	// the peer that sent the run's spec; empty if the value here is wrong by itself, or the run's
	// spec is the one kept on disk
	Peer trainer.PeerID
	Why  string // what is wrong with the value by itself; empty if it differs from the run's
}

func (e *Error) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("run spec: %s = %s: %s", e.Field, e.Here, e.Why)
	}
	by := ""
	if e.Peer != "" {
		by = " (says peer " + e.Peer.String() + ")"
	}
	advice := "leave the field out to adopt the run's value, or use another run name"
	switch e.Field {
	case "layout":
		advice = "give the trainer the run's model sizes, or use another run name"
	case "init":
		advice = "the run began with another model: leave the model file out to take part in it, or use another run " +
			"name"
	case "name":
		advice = "the directory belongs to that run: use another one"
	}
	return fmt.Sprintf("run spec: %s is %s here, but %s in the run%s: %s", e.Field, e.Here, e.There, by, advice)
}
