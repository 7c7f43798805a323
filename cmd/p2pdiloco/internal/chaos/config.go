package chaos

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Config says what swarm to run, and how to hurt it.
type Config struct {
	Executable string // this program
	Peers      int
	Slots      uint64
	Seed       uint64
	Mode       string
	Kinds      []Kind
	Baseline   bool          // whether the same swarm runs undisturbed before
	Timeout    time.Duration // for everything; 0: DefaultTimeout
	LogLevel   string        // of the peers' logs

	Dir string // for data directories, events and logs; exists

	Out      io.Writer // progress and summary
	Terminal bool      // whether Out is a terminal, where a table can be refreshed
	Width    int       // of the terminal, in columns
}

// Most peers and slots. A swarm of 64 processes is what one machine can do something with.
const (
	minPeers = 3 // fewer have no minority that can be hurt
	maxPeers = 64
	maxSlots = 100_000
)

// Modes lists those that a run can be in.
var Modes = []string{p2pdiloco.ModeSync, p2pdiloco.ModeDelayed, p2pdiloco.ModeEager}

// Validate says all that is wrong with c at once.
func (c Config) Validate() error {
	var errs []error
	if c.Peers < minPeers || c.Peers > maxPeers {
		errs = append(errs, wrong("peers", c.Peers, "allowed: %d to %d", minPeers, maxPeers))
	}
	if c.Slots < MinSlots || c.Slots > maxSlots {
		errs = append(errs, wrong("slots", c.Slots, "allowed: %d to %d", MinSlots, maxSlots))
	}
	if !slices.Contains(Modes, c.Mode) {
		errs = append(errs, wrong("mode", c.Mode, "allowed: %s", strings.Join(Modes, ", ")))
	}
	if c.Seed == 0 {
		errs = append(errs, wrong("seed", c.Seed, "allowed: 1 and above"))
	}
	if c.Timeout < 0 {
		errs = append(errs, wrong("timeout", c.Timeout, "allowed: 0 (chosen by --slots) and above"))
	}
	return errors.Join(errs...)
}

func wrong(flag string, value any, format string, args ...any) error {
	return &sources.Fault{Flag: flag, Value: fmt.Sprint(value), Why: fmt.Sprintf(format, args...)}
}

// DefaultTimeout is plenty for a run on a slow machine: a fault costs some ten seconds there, a slot two.
func (c Config) DefaultTimeout() time.Duration {
	faults := len(Schedule(c.Seed, c.Peers, c.Slots, c.Kinds))
	return 2*time.Minute + time.Duration(c.Slots)*2*time.Second + time.Duration(faults)*20*time.Second
}

// Replay is the command line that runs the same schedule again.
func (c Config) Replay() string {
	line := fmt.Sprintf("p2pdiloco chaos --peers %d --slots %d --seed %d --faults %s", c.Peers, c.Slots, c.Seed, Join(c.Kinds))
	if c.Mode != p2pdiloco.ModeSync {
		line += " --mode " + c.Mode
	}
	return line
}
