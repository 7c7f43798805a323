package natbench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Config says what to measure.
type Config struct {
	crew.Setting
	Kinds  lab.Names[nat.Kind] // whose pairs are measured, each once
	Size   uint64              // bytes of the four peers' vector as float32; 0: pairs only
	Rate   sources.Rate        // of every link, each way; 0: no limit
	Delay  time.Duration
	Preset string        // timing of the peers
	Limit  time.Duration // for a pair to connect; a slot of the four has four times that
}

// Default has the values of flags that are not given. The delay is one way between two hosts with a
// public address.
func Default() Config {
	return Config{
		Kinds: slices.Clone(nat.Kinds), Size: 32 << 20, Rate: 100_000_000, Delay: 20 * time.Millisecond,
		Preset: p2pdiloco.PresetWAN, Limit: time.Minute,
	}
}

const (
	minSize  = 1 << 20 // less is over before anything can be done to it
	maxSize  = 1 << 30
	minLimit = 5 * time.Second
	maxLimit = 10 * time.Minute
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var f sources.Faults
	for i, k := range c.Kinds {
		f.Add(!slices.Contains(nat.Kinds, k) || slices.Contains(c.Kinds[:i], k), "kinds", k,
			"allowed: each once of %v", nat.Kinds)
	}
	f.Add(c.Size != 0 && (c.Size < minSize || c.Size > maxSize), "size", c.Size, "allowed: 1MiB to 1GiB")
	f.Add(c.Delay < 0 || c.Delay > time.Second, "delay", c.Delay, "allowed: 0 to 1s")
	f.Add(c.Limit < minLimit || c.Limit > maxLimit, "limit", c.Limit, "allowed: %v to %v", minLimit, maxLimit)
	presets := []string{p2pdiloco.PresetLAN, p2pdiloco.PresetWAN}
	f.Add(!slices.Contains(presets, c.Preset), "preset", c.Preset, "allowed: %s", strings.Join(presets, ", "))
	return errors.Join(f...)
}

// model is the smallest model of one layer with a vector of at least so many bytes; its training
// takes little time.
func model(size uint64) (text string, parameters uint64) {
	m := builtin.Config{Layers: 1, Heads: 4, Context: 4, Batch: 1}
	for m.Width = m.Heads; 4*m.Parameters() < size; m.Width += m.Heads {
	}
	return fmt.Sprintf("layers=1,width=%d,heads=%d,context=%d,batch=%d", m.Width, m.Heads, m.Context, m.Batch),
		m.Parameters()
}
