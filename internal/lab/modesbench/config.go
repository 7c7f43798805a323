package modesbench

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Config says what to measure.
type Config struct {
	Executable string   // this program
	Modes      []string // of Modes, each once
	// of p2pdiloco.Codecs, each once: mode sync is measured with each. Empty: only f32
	Codecs     []string
	Peers      int
	InnerSteps uint64 // H
	Rounds     uint64
	Seeds      int // 1 to this
	WarmSteps  int // of data-parallel training before
	Model      builtin.Config
	Data       []string      // files and folders of text; none: the Go standard library's source
	StepTime   time.Duration // of an inner step; 0: by measurement
	Namespaces bool          // whether each peer is in a network namespace, behind a link
	Rate       int64         // of that link, bits a second each way; 0: no limit

	Dir string    // for the warm start, data directories, events and logs; exists
	Out io.Writer // progress and table
}

// Modes lists those that can be measured.
var Modes = []string{modeSync, modeDelayed, modeEager, modeStreaming, modeAsync}

const (
	modeSync      = p2pdiloco.ModeSync
	modeDelayed   = p2pdiloco.ModeDelayed
	modeEager     = p2pdiloco.ModeEager
	modeStreaming = p2pdiloco.ModeStreaming
	modeAsync     = "async"
)

// Bounds: with more, the processes of one machine measure nothing useful.
const (
	maxPeers = 64
	maxSlots = 100_000
	maxSeeds = 100
	maxWarm  = 1_000_000
	maxSteps = 100_000
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var errs []error
	whole := func(flag string, value, least, most uint64) {
		if value < least || value > most {
			errs = append(errs, sources.Faultf(flag, value, "allowed: %d to %d", least, most))
		}
	}
	whole("peers", uint64(max(c.Peers, 0)), 2, maxPeers)
	least := uint64(1)
	if c.has(modeStreaming) {
		least = fragments // a border needs a step before it
	}
	whole("inner-steps", c.InnerSteps, least, maxSteps)
	whole("rounds", c.Rounds, 1, maxSlots)
	whole("seeds", uint64(max(c.Seeds, 0)), 1, maxSeeds)
	whole("warm-steps", uint64(max(c.WarmSteps, 0)), 1, maxWarm)
	if c.StepTime < 0 || c.StepTime > time.Minute {
		errs = append(errs, sources.Faultf("step-time", c.StepTime, "allowed: 0 (by measurement) to 1m"))
	}
	if c.Rate > 0 && !c.Namespaces {
		errs = append(errs, sources.Faultf("rate", sources.Rate(c.Rate), "it is of links that only --netns has"))
	}
	if len(c.Modes) == 0 {
		errs = append(errs, sources.Faultf("modes", `""`, "allowed: %s", strings.Join(Modes, ", ")))
	}
	for i, m := range c.Modes {
		if !slices.Contains(Modes, m) || slices.Contains(c.Modes[:i], m) {
			errs = append(errs, sources.Faultf("modes", strings.Join(c.Modes, ","), "allowed: each once of %s",
				strings.Join(Modes, ", ")))
			break
		}
	}
	for i, name := range c.Codecs {
		if !slices.Contains(p2pdiloco.Codecs(), name) || slices.Contains(c.Codecs[:i], name) {
			errs = append(errs, sources.Faultf("codecs", strings.Join(c.Codecs, ","), "allowed: each once of %s",
				strings.Join(p2pdiloco.Codecs(), ", ")))
			break
		}
	}
	return errors.Join(errs...)
}

// has says whether a mode was asked for.
func (c Config) has(mode string) bool { return slices.Contains(c.Modes, mode) }
