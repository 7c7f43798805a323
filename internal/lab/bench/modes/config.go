package modes

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Config says what to measure.
type Config struct {
	swarm.Setting
	bench.Place
	Modes      lab.Names[string] // of Modes
	Codecs     lab.Names[string] // that mode sync is measured with; empty: only f32
	InnerSteps uint64            // H
	Rounds     uint64
	Seeds      uint64         // 1 to this
	WarmSteps  uint64         // of data-parallel training before
	Model      settings.Model // with all sizes
	Data       []string       // files and folders of text; none: the Go standard library's source
	StepTime   time.Duration  // of an inner step
}

// Modes lists those that can be measured.
var Modes = []string{"sync", "delayed", "eager", "streaming", "async"}

// most is the bound of rounds, steps and seeds: with more, a machine measures for ever.
const most = 100_000

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var f sources.Faults
	c.Check(&f)
	whole := func(flag string, value, least uint64) {
		f.Add(value < least || value > most, flag, value, "allowed: %d to %d", least, most)
	}
	least := uint64(1)
	if slices.Contains(c.Modes, "streaming") {
		least = fragments // a border needs a step before it
	}
	whole("inner-steps", c.InnerSteps, least)
	whole("rounds", c.Rounds, 1)
	whole("seeds", c.Seeds, 1)
	whole("warm-steps", c.WarmSteps, 1)
	f.Add(c.StepTime < time.Millisecond || c.StepTime > time.Minute, "step-time", c.StepTime, "allowed: 1ms to 1m")
	bench.CheckNames(&f, "modes", c.Modes, Modes)
	for _, name := range c.Codecs {
		up, down, _ := strings.Cut(name, "+")
		_, err1 := codec.New(up)
		_, err2 := codec.NewOutcome(up, down)
		err := cmp.Or(err1, err2)
		f.Add(err != nil, "codecs", c.Codecs, "%v", err)
	}
	err := c.Model.Validate()
	f.Add(err != nil, "model", &c.Model, "%v", err)
	return errors.Join(f...)
}

// batch is the tokens of a peer's inner step, tokens those that all peers of a row train on.
func (c Config) batch() uint64 { return uint64(c.Model.Batch * c.Model.Context) }

func (c Config) tokens() uint64 { return c.Rounds * c.InnerSteps * uint64(c.Peers) * c.batch() }
