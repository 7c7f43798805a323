package bench

import (
	"errors"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// ModesConfig says what to measure.
type ModesConfig struct {
	lab.Setting
	Place
	Rows       lab.Names[string] // as parseRow reads them
	InnerSteps uint64            // H
	Rounds     uint64
	Seeds      uint64        // 1 to this
	WarmSteps  uint64        // of data-parallel training before
	Model      peer.Model    // with all sizes
	Data       []string      // files and folders of text; none: the Go standard library's source
	StepTime   time.Duration // of an inner step
}

// UsualRows are what is measured unless somebody says otherwise. Of rows with a straggler the first
// is what the others are compared with.
var UsualRows = []string{"sync", "delayed", "eager", "streaming", slowSyncRow, "sync.dylu.slow", "async.slow"}

const (
	// most is the bound of rounds, steps and seeds: with more, a machine measures for ever.
	most = 100_000
	// cellTime is how long one row may take in one seed.
	cellTime = 20 * time.Minute
)

// Validate returns all faults of c in one error.
func (c ModesConfig) Validate() error {
	var f sources.Faults
	c.Check(&f)
	whole := func(flag string, value, least uint64) {
		f.Add(value < least || value > most, flag, value, "allowed: %d to %d", least, most)
	}
	least := uint64(1)
	if strings.Contains(c.Rows.String(), "streaming") {
		least = fragments // a border needs a step before it
	}
	whole("inner-steps", c.InnerSteps, least)
	whole("rounds", c.Rounds, 1)
	whole("seeds", c.Seeds, 1)
	whole("warm-steps", c.WarmSteps, 1)
	f.Add(c.StepTime < time.Millisecond || c.StepTime > time.Minute, "step-time", c.StepTime, "allowed: 1ms to 1m")
	f.Add(len(c.Rows) == 0, "rows", c.Rows, "name one at least")
	for _, name := range c.Rows {
		r, err := parseRow(name)
		switch {
		case err != nil:
			f.Add(true, "rows", c.Rows, "%v", err)
		case r.bad*3 >= c.Peers && r.bad > 0:
			f.Add(true, "rows", c.Rows, "%s: fewer than a third of %d peers may be bad", name, c.Peers)
		case r.training(c) > cellTime*3/4:
			f.Add(true, "rows", c.Rows, "%s would train for %v: its limit is %v", name, r.training(c), cellTime*3/4)
		}
	}
	err := c.Model.Validate()
	f.Add(err != nil, "model", &c.Model, "%v", err)
	return errors.Join(f...)
}

// batch is the tokens of a peer's inner step, tokens those that all peers of a row train on.
func (c ModesConfig) batch() uint64 { return uint64(c.Model.Batch * c.Model.Context) }

func (c ModesConfig) tokens() uint64 { return c.Rounds * c.InnerSteps * uint64(c.Peers) * c.batch() }
