package natbench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Config says what to measure.
type Config struct {
	Executable string     // this program
	Kinds      []nat.Kind // whose pairs are measured, each once
	Size       uint64     // bytes of the four peers' vector as float32; 0: pairs only
	Rate       int64      // of every link, bits a second each way; 0: no limit
	Delay      time.Duration
	Preset     string        // timing of the peers
	Limit      time.Duration // for a pair to connect; a slot of the four has four times that

	Dir string    // for data directories, events and logs; exists
	Out io.Writer // progress and tables
}

// Default has the values of flags that are not given. The delay is one way between two hosts with a
// public address.
func Default() Config {
	return Config{
		Kinds: nat.Kinds(), Size: 32 << 20, Rate: 100_000_000, Delay: 20 * time.Millisecond,
		Preset: p2pdiloco.PresetWAN, Limit: time.Minute,
	}
}

// Quick is a Default in a few minutes.
func Quick() Config {
	c := Default()
	c.Kinds = []nat.Kind{nat.Public, nat.PortRestricted, nat.Symmetric, nat.NoUDP}
	c.Size, c.Preset, c.Limit = 4<<20, p2pdiloco.PresetLAN, 30*time.Second
	return c
}

const (
	minSize  = 1 << 20 // less is over before anything can be done to it
	maxSize  = 1 << 30
	minLimit = 5 * time.Second
	maxLimit = 10 * time.Minute
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var errs []error
	bad := func(flag string, value any, format string, args ...any) {
		errs = append(errs, sources.Faultf(flag, value, format, args...))
	}
	for i, k := range c.Kinds {
		if !slices.Contains(nat.Kinds(), k) || slices.Contains(c.Kinds[:i], k) {
			bad("kinds", k, "allowed: each once of %s", Join(nat.Kinds()))
		}
	}
	if c.Size != 0 && (c.Size < minSize || c.Size > maxSize) {
		bad("size", c.Size, "allowed: 1MiB to 1GiB")
	}
	if c.Delay < 0 || c.Delay > time.Second {
		bad("delay", c.Delay, "allowed: 0 to 1s")
	}
	if c.Limit < minLimit || c.Limit > maxLimit {
		bad("limit", c.Limit, "allowed: %v to %v", minLimit, maxLimit)
	}
	if c.Preset != p2pdiloco.PresetLAN && c.Preset != p2pdiloco.PresetWAN {
		bad("preset", c.Preset, "allowed: %s, %s", p2pdiloco.PresetLAN, p2pdiloco.PresetWAN)
	}
	return errors.Join(errs...)
}

// Join writes kinds as ParseKinds reads them.
func Join(kinds []nat.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ",")
}

// ParseKinds reads a list of kinds; Validate refuses unknown ones.
func ParseKinds(text string) (kinds []nat.Kind) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			kinds = append(kinds, nat.Kind(name))
		}
	}
	return kinds
}

// link is every site's: a packet crosses two.
func (c Config) link() lab.Link { return lab.Link{Rate: c.Rate, Delay: c.Delay / 2} }

// tiny is the model of a pair: a slot is mostly agreement.
const tiny = "layers=1,width=16,heads=2,context=8,batch=2"

// model is the smallest model of one layer with a vector of at least so many bytes; its training
// takes little time.
func model(size uint64) (text string, parameters uint64) {
	m := builtin.Config{Layers: 1, Heads: 4, Context: 4, Batch: 1}
	for m.Width = m.Heads; 4*m.Parameters() < size; m.Width += m.Heads {
	}
	return fmt.Sprintf("layers=1,width=%d,heads=%d,context=%d,batch=%d", m.Width, m.Heads, m.Context, m.Batch),
		m.Parameters()
}
