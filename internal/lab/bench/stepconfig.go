package bench

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// StepConfig says what to measure and where.
type StepConfig struct {
	lab.Setting
	Slots   uint64 // that count, of each case
	Cases   []Case // at least one; they take turns, and are compared with the first
	Against string // mpi: in turns it reduces a vector as large as the first
}

// Case is a swarm to measure.
type Case struct {
	Place
	Alone     bool           // peers have the all-reduce and its network, and no ledger
	Bytes     uint64         // of the model, as float32
	Spec      p2pdiloco.Spec // Aggregator, Codec, Schedule and Trust; empty: as a run has it
	Transport string         // of p2p's; empty: all
}

// Slots that do not count, and the last ends with the run. A peer spares the state that others have
// fetched for 24 heights, with the outcomes since. Until then its files are new, which is slower
// than to write into old ones.
const (
	warmUps      = 30
	aloneWarmUps = 2 // reductions without a ledger
	after        = 1
)

// turnSlots is how many slots that count a swarm does, at most, before it is another one's turn.
const turnSlots = 20

// turns divides the slots into swarms.
func (cfg StepConfig) turns() (slots []uint64) {
	for left := cfg.Slots; left > 0; left -= slots[len(slots)-1] {
		slots = append(slots, min(left, turnSlots))
	}
	return slots
}

// Validate returns all faults of cfg in one error. With more than it allows, the processes of one
// machine measure nothing useful.
func (cfg StepConfig) Validate() error {
	var f sources.Faults
	f.Add(cfg.Slots < 1 || cfg.Slots > 10_000, "slots", cfg.Slots, "allowed: 1 to 10000")
	x := cfg.Cases[0] // the others are as large, and in the same place
	x.Check(&f)
	f.Add(x.Bytes < 1<<10 || x.Bytes > 1<<30, "size", SizeText(x.Bytes), "allowed: 1KiB to 1GiB")
	f.Add(cfg.Against != "" && !x.Loopback(), "against", cfg.Against,
		"it runs on loopback only: leave --rtt and --rate out")
	return errors.Join(f...)
}

// SizeText is a number of bytes as names and flags have it, like 64MiB.
func SizeText(bytes uint64) string {
	return strings.Replace(strings.ReplaceAll(humanize.IBytes(bytes), " ", ""), ".0", "", 1)
}

// spec is the run's, or what a run would have, with so many slots that count.
func (c Case) spec(run string, slots uint64) p2pdiloco.Spec {
	s := c.Spec
	s.Name, s.Rounds, s.InnerSteps = run, warmUps+slots+after, 1
	s.StartPeers, s.MinPeers = uint64(c.Peers), uint64(c.Peers)
	if c.Alone {
		s.Trust, s.TrimPermille = p2pdiloco.TrustCrash, 250 // one peer of four
		s.Layout = layout(c.elements())
		s = s.Settled()
	}
	return s
}

func layout(elements uint64) trainer.Layout {
	return trainer.Layout{{Name: "x", Shape: []uint64{elements}}}
}

// elements is how many the model has.
func (c Case) elements() uint64 { return c.Bytes / 4 }

// preset is the timing that users have at such a distance.
func (c Case) preset() string {
	if c.RTT >= 20*time.Millisecond {
		return p2pdiloco.PresetWAN
	}
	return p2pdiloco.PresetLAN
}

// name is that of a measurement of a case: what is not as usual is in it.
func (c Case) name() string {
	name := c.nameOf("Step")
	if c.Alone {
		name = c.nameOf("AllReduce")
	}
	for _, part := range []string{c.Spec.Aggregator, c.Spec.Codec, c.Spec.Schedule, c.Spec.Trust, c.Transport} {
		if part != "" {
			name += "/" + part
		}
	}
	if c.Rate > 0 {
		name += "/rate=" + c.Rate.String()
	}
	if c.RTT > 0 {
		name += "/rtt=" + c.RTT.String()
	}
	return name
}

// nameOf is a name with the size of a case.
func (c Case) nameOf(kind string) string {
	return fmt.Sprintf("%s/peers=%d/size=%s", kind, c.Peers, SizeText(c.Bytes))
}
