package demo

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Config says what swarm to run.
type Config struct {
	Executable string // this program
	Peers      int
	Rounds     uint64
	InnerSteps uint64 // of a peer, a round
	Mode       string
	Fragments  uint64 // of mode streaming, as the next two; 0 and "" for what suits it
	Delay      string
	Alpha      string
	Pace       string // empty: the mode's
	RoundTime  string // seconds, with pace deadline
	Aggregator string
	Codec      string   // empty: DefaultCodec
	Data       []string // files and folders of text; none: the Go standard library's source
	Seed       uint64

	Dir    string           // for data directories, events and logs; exists
	Curve  string           // path of the loss curve's PNG
	Events *eventlog.Writer // takes the events of all peers; may be nil

	Out      io.Writer // progress and summary
	Terminal bool      // whether Out is a terminal, where a table can be refreshed
	Width    int       // of the terminal, in columns
}

// DefaultCodec encodes pseudo-gradients unless Config.Codec names another codec.
const DefaultCodec = "f32"

// Modes lists the modes that the demo can run in.
var Modes = []string{
	p2pdiloco.ModeSync, p2pdiloco.ModeDelayed, p2pdiloco.ModeEager, p2pdiloco.ModeStreaming,
	p2pdiloco.ModeAsync,
}

// Paces lists the ways to choose the number of a peer's inner steps.
var Paces = []string{p2pdiloco.PaceSteps, p2pdiloco.PaceDyLU, p2pdiloco.PaceDeadline}

// Aggregators lists the aggregators that the demo can run with.
var Aggregators = []string{"mean", "trimmed_mean", "median"}

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
func (c Config) Validate() error {
	var errs []error
	if c.Peers < 1 || c.Peers > maxPeers {
		errs = append(errs, sources.Faultf("peers", c.Peers, "allowed: 1 to %d", maxPeers))
	}
	if c.Rounds < 1 || c.Rounds > maxRounds {
		errs = append(errs, sources.Faultf("rounds", c.Rounds, "allowed: 1 to %d", maxRounds))
	}
	if c.Seed == 0 {
		errs = append(errs, sources.Faultf("seed", c.Seed, "allowed: 1 and above"))
	}
	if !slices.Contains(Modes, c.Mode) {
		errs = append(errs, sources.Faultf("mode", c.Mode, "allowed: %s", strings.Join(Modes, ", ")))
	}
	if !slices.Contains(Aggregators, c.Aggregator) {
		errs = append(errs, sources.Faultf("aggregator", c.Aggregator, "allowed: %s", strings.Join(Aggregators, ", ")))
	}
	var wrong *p2pdiloco.SpecError
	if c.InnerSteps == 0 {
		errs = append(errs, sources.Faultf("inner-steps", c.InnerSteps, "allowed: 1 and above"))
	} else if err := (p2pdiloco.Spec{Name: "demo", InnerSteps: c.InnerSteps}).Validate(); errors.As(err, &wrong) {
		errs = append(errs, sources.Faultf("inner-steps", c.InnerSteps, "%s", wrong.Why))
	} else if err := c.streaming().Validate(); errors.As(err, &wrong) {
		errs = append(errs, sources.Faultf(strings.ReplaceAll(wrong.Field, "_", "-"), wrong.Here, "%s", wrong.Why))
	}
	if err := c.pace().Validate(); errors.As(err, &wrong) {
		errs = append(errs, sources.Faultf(strings.ReplaceAll(wrong.Field, "_", "-"), wrong.Here, "%s", wrong.Why))
	}
	return errors.Join(errs...)
}

// fragments is how many parts of the model take turns.
func (c Config) fragments() uint64 {
	if c.Fragments == 0 && c.Mode == p2pdiloco.ModeStreaming {
		return defaultFragments
	}
	return max(c.Fragments, 1)
}

// pace are the run's settings of inner steps.
func (c Config) pace() p2pdiloco.Spec {
	s := p2pdiloco.Spec{Name: "demo", Pace: c.Pace, RoundTime: c.RoundTime}
	if slices.Contains(Modes, c.Mode) {
		s.Mode = c.Mode
	}
	s.Pace = s.Settled().Pace
	return s
}

// unequal says whether peers do as many inner steps as their speed allows.
func (c Config) unequal() bool {
	return c.Pace != p2pdiloco.PaceSteps && (c.Pace != "" || c.Mode == p2pdiloco.ModeAsync)
}

// streaming are the run's settings of fragments.
func (c Config) streaming() p2pdiloco.Spec {
	return p2pdiloco.Spec{
		Name: "demo", Mode: c.Mode, InnerSteps: c.InnerSteps, Fragments: c.fragments(),
		FragmentDelay: c.Delay, FragmentAlpha: c.Alpha,
	}
}
