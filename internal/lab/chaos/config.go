package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Config says what swarm to run, and how to hurt it.
type Config struct {
	lab.Setting
	Peers   int
	Slots   uint64
	Seed    uint64
	Mode    string
	Trust   string // empty: TrustCrash
	Codec   string // empty: DefaultCodec
	Kinds   lab.Names[Kind]
	Preset  string        // of the peers' timers; empty: lan
	Timeout time.Duration // for everything; 0: by slots and faults
	Pause   time.Duration // for inner steps; 0: pause
}

// Bounds of peers and slots. One machine can run a swarm of 64 processes.
const (
	minPeers = 3 // fewer peers have no minority that can be hurt
	maxPeers = 64
	maxSlots = 100_000
)

// DefaultCodec encodes pseudo-gradients unless Config.Codec names another codec.
const DefaultCodec = "f32"

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var f sources.Faults
	f.Add(c.Peers < minPeers || c.Peers > maxPeers, "peers", c.Peers, "allowed: %d to %d", minPeers, maxPeers)
	f.Add(c.Slots < minSlots || c.Slots > maxSlots, "slots", c.Slots, "allowed: %d to %d", minSlots, maxSlots)
	n := c.Settings().Fragments
	f.Add(c.Slots%n != 0, "slots", c.Slots, "a multiple of the %d fragments: the run ends with a whole round", n)
	if fault := (*p2pdiloco.SpecError)(nil); errors.As(c.Settings().Validate(), &fault) {
		f.Add(true, strings.ReplaceAll(fault.Field, "_", "-"), fault.Here, "%s", fault.Why)
	}
	_, known := edge.PresetNamed(cmp.Or(c.Preset, edge.PresetLAN))
	f.Add(!known, "preset", c.Preset, "allowed: %s, %s", edge.PresetLAN, edge.PresetWAN)
	for _, k := range c.Kinds {
		f.Add(k.row().do == "", "faults", c.Kinds, "%q is none of %v", k, those(func(row) bool { return true }))
	}
	f.Add(c.Seed == 0, "seed", c.Seed, "allowed: 1 and above")
	f.Add(c.Timeout < 0, "timeout", c.Timeout, "allowed: 0 (chosen by --slots) and above")
	return errors.Join(f...)
}

// Settings are the settings of the run that depend on the mode. Slots follow each other as fast as
// possible; in mode streaming one lands between two others.
func (c Config) Settings() p2pdiloco.Spec {
	s := p2pdiloco.Spec{
		Name: "chaos", Mode: c.Mode, Trust: cmp.Or(c.Trust, p2pdiloco.TrustCrash),
		Codec: cmp.Or(c.Codec, DefaultCodec), InnerSteps: 1, Fragments: 1,
	}
	if c.Mode == p2pdiloco.ModeStreaming {
		s.Fragments, s.FragmentDelay, s.FragmentAlpha, s.InnerSteps = 4, "1", "0", 8
	}
	return s
}

// Replay is the command line that runs the same schedule again.
func (c Config) Replay() string {
	s := c.Settings()
	return fmt.Sprintf("p2plab chaos --peers %d --slots %d --seed %d --faults %v --mode %s --trust %s --codec %s "+
		"--preset %s", c.Peers, c.Slots, c.Seed, c.Kinds, s.Mode, s.Trust, s.Codec, cmp.Or(c.Preset, edge.PresetLAN))
}

// timing are the timers of the peers.
func (c Config) timing() edge.Preset {
	p, _ := edge.PresetNamed(cmp.Or(c.Preset, edge.PresetLAN)) // Validate has looked
	return p
}

// stretch makes of a time with the preset lan what it is with the peers' preset: as much longer as
// it takes until a member is lost.
func (c Config) stretch(d time.Duration) time.Duration {
	lan, _ := edge.PresetNamed(edge.PresetLAN)
	return time.Duration(float64(d) * float64(c.timing().Ledger.Lost) / float64(lan.Ledger.Lost))
}

// lostLate is how long it may take until the others miss a peer that was killed: three times what
// the preset takes for lost.
func (c Config) lostLate() time.Duration { return 3 * c.timing().Ledger.Lost }

// link is an undisturbed link: that of a building's network, or of a connection over the internet.
func (c Config) link() lab.Link {
	if c.Preset == edge.PresetWAN {
		return lab.Link{Rate: 50_000_000, Delay: 25 * time.Millisecond}
	}
	return lab.Link{Delay: 200 * time.Microsecond}
}
