package modes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Config says what to measure.
type Config struct {
	swarm.Setting
	Modes lab.Names[string] // of Modes, each once
	// of p2pdiloco.Codecs, each once: mode sync is measured with each. Empty: only f32
	Codecs     lab.Names[string]
	Peers      int
	InnerSteps uint64 // H
	Rounds     uint64
	Seeds      int // 1 to this
	WarmSteps  int // of data-parallel training before
	Model      builtin.Config
	Data       []string      // files and folders of text; none: the Go standard library's source
	StepTime   time.Duration // of an inner step; 0: by measurement
	Namespaces bool          // whether each peer is in a network namespace, behind a link
	Rate       sources.Rate  // of that link, each way; 0: no limit
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
	var f sources.Faults
	whole := func(flag string, value, least, most uint64) {
		f.Add(value < least || value > most, flag, value, "allowed: %d to %d", least, most)
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
	f.Add(c.StepTime < 0 || c.StepTime > time.Minute, "step-time", c.StepTime,
		"allowed: 0 (by measurement) to 1m")
	f.Add(c.Rate > 0 && !c.Namespaces, "rate", c.Rate, "it is of links that only --netns has")
	f.Add(len(c.Modes) == 0, "modes", "", "allowed: %s", strings.Join(Modes, ", "))
	f.Add(!eachOnce(c.Modes, Modes), "modes", c.Modes, "allowed: each once of %s", strings.Join(Modes, ", "))
	codecs := p2pdiloco.Codecs()
	f.Add(!eachOnce(c.Codecs, codecs), "codecs", c.Codecs, "allowed: each once of %s", strings.Join(codecs, ", "))
	return errors.Join(f...)
}

// eachOnce says whether all names are allowed ones, and none is there twice.
func eachOnce(names, allowed []string) bool {
	for i, n := range names {
		if !slices.Contains(allowed, n) || slices.Contains(names[:i], n) {
			return false
		}
	}
	return true
}

// has says whether a mode was asked for.
func (c Config) has(mode string) bool { return slices.Contains(c.Modes, mode) }

// model is the model's sizes as the flag --model has them.
func (c Config) model() string {
	m := c.Model.WithDefaults()
	return fmt.Sprintf(
		"layers=%d,width=%d,heads=%d,context=%d,batch=%d",
		m.Layers,
		m.Width,
		m.Heads,
		m.Context,
		m.Batch,
	)
}
