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
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
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
	Seeds      uint64 // 1 to this
	WarmSteps  uint64 // of data-parallel training before
	Model      builtin.Config
	Data       []string      // files and folders of text; none: the Go standard library's source
	StepTime   time.Duration // of an inner step
	Links      bench.Links
}

// Modes lists those that can be measured.
var Modes = []string{modeSync, modeDelayed, modeEager, modeStreaming, modeAsync}

const (
	modeSync      = p2pdiloco.ModeSync
	modeDelayed   = p2pdiloco.ModeDelayed
	modeEager     = p2pdiloco.ModeEager
	modeStreaming = p2pdiloco.ModeStreaming
	modeAsync     = p2pdiloco.ModeAsync
)

// Bounds: with more, the processes of one machine measure nothing useful.
const (
	maxPeers = 64
	most     = 100_000 // rounds, steps, seeds
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var f sources.Faults
	whole := func(flag string, value, least, most uint64) {
		f.Add(value < least || value > most, flag, value, "allowed: %d to %d", least, most)
	}
	whole("peers", uint64(max(c.Peers, 0)), 2, maxPeers)
	least := uint64(1)
	if slices.Contains(c.Modes, modeStreaming) {
		least = fragments // a border needs a step before it
	}
	whole("inner-steps", c.InnerSteps, least, most)
	whole("rounds", c.Rounds, 1, most)
	whole("seeds", c.Seeds, 1, most)
	whole("warm-steps", c.WarmSteps, 1, most)
	f.Add(c.StepTime < time.Millisecond || c.StepTime > time.Minute, "step-time", c.StepTime, "allowed: 1ms to 1m")
	c.Links.Check(&f)
	names := func(flag string, given, allowed []string) {
		sorted := slices.Sorted(slices.Values(given))
		f.Add(len(slices.Compact(sorted)) < len(given) ||
			slices.ContainsFunc(given, func(n string) bool { return !slices.Contains(allowed, n) }),
			flag, strings.Join(given, ","), "allowed: each once of %s", strings.Join(allowed, ", "))
	}
	f.Add(len(c.Modes) == 0, "modes", "", "allowed: %s", strings.Join(Modes, ", "))
	names("modes", c.Modes, Modes)
	names("codecs", c.Codecs, p2pdiloco.Codecs())
	return errors.Join(f...)
}

// model is the model's sizes as the flag --model has them.
func (c Config) model() string {
	m := c.Model.WithDefaults()
	return fmt.Sprintf("layers=%d,width=%d,heads=%d,context=%d,batch=%d", m.Layers, m.Width, m.Heads, m.Context, m.Batch)
}

// batch is the tokens of a peer's inner step, tokens those that all peers of a row train on.
func (c Config) batch() uint64 {
	m := c.Model.WithDefaults()
	return uint64(m.Batch * m.Context)
}

func (c Config) tokens() uint64 { return c.Rounds * c.InnerSteps * uint64(c.Peers) * c.batch() }
