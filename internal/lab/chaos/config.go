package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Config says what swarm to run, and how to hurt it.
type Config struct {
	swarm.Setting
	Peers     int
	Slots     uint64
	Seed      uint64
	Mode      string
	Trust     string // empty: TrustCrash
	Codec     string // empty: DefaultCodec
	Fragments uint64 // of mode streaming, as the next two; 0 and "" for what suits it
	Delay     string
	Alpha     string
	Kinds     lab.Names[Kind]
	Preset    string        // of the peers' timers, one of Presets; empty: lan
	Baseline  bool          // whether the same swarm runs undisturbed before
	Timeout   time.Duration // for everything; 0: DefaultTimeout
	LogLevel  string        // of the peers' logs
	Pause     time.Duration // for inner steps; 0: what suits a short run
	// about how long a slot's reduction takes, with faults inside of it; 0: no time
	Reduction time.Duration
	// processes that take the processors from the beginning of the run to its end
	Load int

	Terminal bool // whether Out is a terminal, where a table can be refreshed
	Width    int  // of the terminal, in columns
}

// Bounds of peers and slots. One machine can run a swarm of 64 processes.
const (
	minPeers = 3 // fewer peers have no minority that can be hurt
	maxPeers = 64
	maxSlots = 100_000
	maxLoad  = 256
)

// DefaultCodec encodes pseudo-gradients unless Config.Codec names another codec.
const DefaultCodec = "f32"

// Modes lists the modes of a run.
var Modes = []string{
	p2pdiloco.ModeSync, p2pdiloco.ModeDelayed, p2pdiloco.ModeEager, p2pdiloco.ModeStreaming,
	p2pdiloco.ModeAsync,
}

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var f sources.Faults
	f.Add(c.Peers < minPeers || c.Peers > maxPeers, "peers", c.Peers, "allowed: %d to %d", minPeers, maxPeers)
	f.Add(c.Slots < minSlots || c.Slots > maxSlots, "slots", c.Slots, "allowed: %d to %d", minSlots, maxSlots)
	f.Add(!slices.Contains(Modes, c.Mode), "mode", c.Mode, "allowed: %s", strings.Join(Modes, ", "))
	n := c.Settings().Fragments
	f.Add(c.Slots%n != 0, "slots", c.Slots, "a multiple of the %d fragments: the run ends with a whole round", n)
	if fault := (*p2pdiloco.SpecError)(nil); errors.As(c.Settings().Validate(), &fault) {
		f.Add(true, strings.ReplaceAll(fault.Field, "_", "-"), fault.Here, "%s", fault.Why)
	}
	f.Add(!slices.Contains(Presets, cmp.Or(c.Preset, Presets[0])), "preset", c.Preset, "allowed: %s",
		strings.Join(Presets, ", "))
	f.Add(c.Seed == 0, "seed", c.Seed, "allowed: 1 and above")
	f.Add(c.Reduction < 0 || c.Reduction > longestReduction, "reduction", c.Reduction, "allowed: 0 to %v",
		longestReduction)
	f.Add(c.Load < 0 || c.Load > maxLoad, "load", c.Load, "allowed: 0 to %d", maxLoad)
	f.Add(c.Timeout < 0, "timeout", c.Timeout, "allowed: 0 (chosen by --slots) and above")
	return errors.Join(f...)
}

// defaultFragments is how many parts mode streaming has here.
const defaultFragments = 4

// Settings are the settings of the run that depend on the mode. Slots follow each other as fast as
// possible; in mode streaming one lands between two others.
func (c Config) Settings() p2pdiloco.Spec {
	s := p2pdiloco.Spec{
		Name: "chaos", Mode: c.Mode, Trust: cmp.Or(c.Trust, p2pdiloco.TrustCrash),
		Codec: cmp.Or(c.Codec, DefaultCodec), InnerSteps: 1,
		Fragments: max(c.Fragments, 1), FragmentDelay: c.Delay, FragmentAlpha: c.Alpha,
	}
	if c.Mode != p2pdiloco.ModeStreaming {
		return s
	}
	if c.Fragments == 0 {
		s.Fragments = defaultFragments
	}
	if s.FragmentDelay == "" {
		s.FragmentDelay = "1"
	}
	if s.FragmentAlpha == "" {
		s.FragmentAlpha = "0"
	}
	s.InnerSteps = 2 * s.Fragments
	return s
}

// DefaultTimeout is enough for a run on a slow machine, where a fault costs about ten seconds and a
// slot two.
func (c Config) DefaultTimeout() time.Duration {
	faults := len(c.schedule())
	slot := 2*time.Second + 2*c.Reduction
	if c.Load > 0 { // then it takes as much longer as there are processes for a processor
		slot += time.Duration(c.Load) * time.Second
	}
	return c.stretch(2*time.Minute + time.Duration(c.Slots)*slot + time.Duration(faults)*20*time.Second)
}

// Replay is the command line that runs the same schedule again.
func (c Config) Replay() string {
	line := fmt.Sprintf("p2plab chaos --peers %d --slots %d --seed %d --faults %v", c.Peers, c.Slots, c.Seed,
		c.Kinds)
	if c.Mode != p2pdiloco.ModeSync {
		line += " --mode " + c.Mode
	}
	if s := c.Settings(); s.Trust != p2pdiloco.TrustCrash {
		line += " --trust " + s.Trust
	}
	if c.Preset != "" && c.Preset != Presets[0] {
		line += " --preset " + c.Preset
	}
	if s := c.Settings(); s.Codec != DefaultCodec {
		line += " --codec " + s.Codec
	}
	if c.Reduction > 0 {
		line += fmt.Sprintf(" --reduction %v", c.Reduction)
	}
	if c.Load > 0 {
		line += fmt.Sprintf(" --load %d", c.Load)
	}
	if s := c.Settings(); c.Mode == p2pdiloco.ModeStreaming {
		line += fmt.Sprintf(" --fragments %d --fragment-delay %s --fragment-alpha %s", s.Fragments, s.FragmentDelay,
			s.FragmentAlpha)
	}
	return line
}
