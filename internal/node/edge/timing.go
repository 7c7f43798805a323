package edge

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Names of the presets.
const (
	PresetLAN = "lan"
	PresetWAN = "wan"
)

// Preset is all that depends on how far apart peers are. Timers decide only when a peer acts, never
// what is agreed.
//
// All members of a run should have the same preset. Members with different ones take each other for
// lost: a peer of wan reports that it is alive once in 5 s, and one of lan waits 1.5 s for that. A
// peer that was given no preset therefore takes the run's, which the run's peers announce beside
// the spec (package formation), and its data directory remembers it (package datadir).
type Preset struct {
	Ledger    membership.Timing
	Discovery time.Duration // a peer that finds nobody for so long founds the run
	// a stream of the reduction without any byte for so long is lost: it costs that peer's share of
	// a slot
	Stall     time.Duration
	Fetch     time.Duration // a donor of states without progress for so long is replaced
	Hello     time.Duration // between two hellos while no spec is settled
	Heartbeat time.Duration // of gossip; its default if 0
}

// PresetNamed returns the preset of a name, if there is one.
func PresetNamed(name string) (Preset, bool) {
	switch name {
	case PresetLAN:
		return lan, true
	case PresetWAN:
		return wan, true
	}
	return Preset{}, false
}

var lan = Preset{
	Ledger: membership.Timing{
		Alive: 250 * time.Millisecond, Beat: 250 * time.Millisecond, Patience: 2 * time.Second, Term: 5 * time.Second,
		Lost: 1500 * time.Millisecond, Gone: 300 * time.Millisecond, Quiet: 800 * time.Millisecond,
		MinGrace: 5 * time.Second, GraceFactor: 3, Straggler: 60 * time.Second,
		FoundAfter: 1500 * time.Millisecond, ForkAfter: 20 * time.Second, Linger: 30 * time.Second,
		Retry: 500 * time.Millisecond,
	},
	Discovery: 2 * time.Second, Stall: 4 * time.Second, Fetch: 4 * time.Second, Hello: 250 * time.Millisecond,
	Heartbeat: gossip.LANHeartbeat,
}

var wan = Preset{
	Ledger: membership.Timing{
		Alive: 5 * time.Second, Beat: 5 * time.Second, Patience: 15 * time.Second, Term: time.Minute,
		Lost:     30 * time.Second,
		Gone:     800 * time.Millisecond,
		Quiet:    800 * time.Millisecond,
		MinGrace: 30 * time.Second, GraceFactor: 3, Straggler: 10 * time.Minute,
		FoundAfter: 10 * time.Second, ForkAfter: 5 * time.Minute, Linger: 10 * time.Minute, Retry: 5 * time.Second,
	},
	Discovery: 20 * time.Second, Stall: 6 * time.Second, Fetch: 20 * time.Second, Hello: 2 * time.Second,
}
