package main

import (
	"cmp"
	"errors"
	"io"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// demoConfig says what swarm to run.
type demoConfig struct {
	Executable string // this program
	Peers      int
	Spec       p2pdiloco.Spec // what of it is the user's
	Data       []string       // files and folders of text; none: the Go standard library's source

	Dir    string // for data directories, events and logs; exists
	Curve  string // path of the loss curve's SVG
	Report string // path of the report of what the peers have measured, a page

	Out io.Writer // progress and summary
}

// trimPermille makes the trimmed mean of 4 peers drop the highest and the lowest.
const trimPermille = 250

// defaultFragments is how many parts mode streaming has here: enough to see that less is sent at a
// time.
const defaultFragments = 4

// Bounds of peers and rounds: with more, neither the processes nor the picture would show anything.
const (
	maxPeers  = 64
	maxRounds = 10000
)

// Validate returns all faults of c in one error.
func (c demoConfig) Validate() error {
	var errs sources.Faults
	errs.Add(c.Peers < 1 || c.Peers > maxPeers, "peers", c.Peers, "allowed: 1 to %d", maxPeers)
	errs.Add(c.Spec.Rounds < 1 || c.Spec.Rounds > maxRounds, "rounds", c.Spec.Rounds, "allowed: 1 to %d", maxRounds)
	errs.Add(c.Spec.Seed == 0, "seed", c.Spec.Seed, "allowed: 1 and above")
	errs.Add(c.Spec.InnerSteps == 0, "inner-steps", c.Spec.InnerSteps, "allowed: 1 and above")
	s := c.spec()
	s.Name, s.StartPeers, s.Pace = "demo", 0, s.Settled().Pace
	if wrong, ok := s.Validate().(interface{ Unwrap() []error }); ok {
		for _, err := range wrong.Unwrap() {
			if field, ok := errors.AsType[*p2pdiloco.SpecError](err); ok {
				errs.Add(true, sources.Flag(field.Field), field.Here, "%s", field.Why)
			}
		}
	}
	return errors.Join(errs...)
}

// spec is the run's. With so few rounds an outer step without momentum is best, and results that
// come a slot late need a smaller one.
func (c demoConfig) spec() p2pdiloco.Spec {
	s := c.Spec
	s.StartPeers, s.Outer, s.OuterLR, s.Momentum = uint64(c.Peers), "sgd", "0.7", "0"
	if s.Mode == p2pdiloco.ModeSync || s.Mode == p2pdiloco.ModeStreaming {
		s.OuterLR = "1.0"
	}
	if s.Mode == p2pdiloco.ModeStreaming {
		s.Fragments = cmp.Or(s.Fragments, defaultFragments)
	}
	if s.Aggregator == "trimmed_mean" {
		s.TrimPermille = trimPermille
	}
	return s
}

// fragments is how many parts of the model take turns.
func (c demoConfig) fragments() uint64 { return max(1, c.spec().Fragments) }
