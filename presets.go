package p2pdiloco

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Names of the timing presets.
const (
	PresetLAN = "lan" // one machine or one building: a dead peer is seen within a second, one cut off in 2
	PresetWAN = "wan" // the internet
)

// preset is all that depends on how far apart peers are. Timers decide only who acts when.
type preset struct {
	ledger    membership.Timing
	discovery time.Duration // a peer that finds nobody for so long founds the run
	stall     time.Duration // a stream of the reduction without any byte for so long is lost: it costs that peer's share of a slot
	fetch     time.Duration // a donor of states without progress for so long is replaced
	hello     time.Duration // between hellos while no spec is settled
	heartbeat time.Duration // of gossip; its default if 0
}

var presets = map[string]preset{
	PresetLAN: {
		ledger: membership.Timing{
			Alive: 250 * time.Millisecond, Beat: 250 * time.Millisecond, Patience: 2 * time.Second, Lost: 1500 * time.Millisecond, Gone: 300 * time.Millisecond,
			MinGrace: 5 * time.Second, GraceFactor: 3, Straggler: 60 * time.Second,
			FoundAfter: 1500 * time.Millisecond, ForkAfter: 20 * time.Second, Linger: 5 * time.Second, Retry: 500 * time.Millisecond,
		},
		discovery: 2 * time.Second, stall: 4 * time.Second, fetch: 4 * time.Second, hello: 250 * time.Millisecond,
		heartbeat: gossip.LANHeartbeat,
	},
	PresetWAN: {
		ledger: membership.Timing{
			Alive: 5 * time.Second, Beat: 5 * time.Second, Patience: 15 * time.Second, Lost: 30 * time.Second, Gone: 800 * time.Millisecond,
			MinGrace: 30 * time.Second, GraceFactor: 3, Straggler: 10 * time.Minute,
			FoundAfter: 10 * time.Second, ForkAfter: 5 * time.Minute, Linger: 2 * time.Minute, Retry: 5 * time.Second,
		},
		discovery: 20 * time.Second, stall: 6 * time.Second, fetch: 20 * time.Second, hello: 2 * time.Second,
	},
}
