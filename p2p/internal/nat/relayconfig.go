package nat

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
)

// When a peer relays for others.
const (
	RelayOff    = "off"
	RelayAlways = "always"
)

// RelayConfig says whether and for which peers a peer relays what two others that cannot connect
// send each other, and within which bounds.
//
// Served are the peers of this peer's runs: members, and those whose hello was accepted here
// (Hello, SetHello). A node that is in no run itself is given the runs by name: it says hello to
// peers that ask, and serves those that answer as peers of the run.
type RelayConfig struct {
	// Serve is RelayOff or RelayAlways. Empty: off.
	Serve string
	// Runs are the names of runs whose peers are served, besides those of this peer's own.
	Runs []string
	// Peers are IDs of peers that are served in any case.
	Peers []string
	// Open serves everybody.
	Open bool
	// Total is the bytes a second of all together. 0: no bound.
	Total int64
	// Duration is how long one relayed connection may last. Default 12 hours; peers make another
	// one then.
	Duration time.Duration
	// Reservations is how many peers at a time may be reached through here. Default 256.
	Reservations int
}

// Defaults of RelayConfig, for nodes that are there for it.
const (
	defaultRelayDuration     = 12 * time.Hour
	defaultRelayReservations = 256
	maxRelayNames            = 256
	minRelayDuration         = time.Minute
)

// MemberRelay is the RelayConfig for members of a run. They relay for each other without these
// bounds, and for newcomers with less than a node that is there for it.
func MemberRelay() RelayConfig {
	return RelayConfig{Serve: RelayAlways, Total: 5_000_000}
}

// WithDefaults fills in what is not set.
func (c RelayConfig) WithDefaults() RelayConfig {
	c.Serve = cmp.Or(c.Serve, RelayOff)
	c.Duration = cmp.Or(c.Duration, defaultRelayDuration)
	c.Reservations = cmp.Or(c.Reservations, defaultRelayReservations)
	return c
}

// Validate reports every fault of a config with defaults at once.
func (c RelayConfig) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Serve != RelayOff && c.Serve != RelayAlways, "relaying %q: give %s or %s", c.Serve, RelayOff, RelayAlways)
	for _, run := range c.Runs {
		bad(run == "" || len(run) > limits.MaxRunName, "relaying for run %.40q: give a name of 1 to %d bytes", run,
			limits.MaxRunName)
	}
	for _, id := range c.Peers {
		_, err := peer.Decode(id)
		bad(err != nil, "relaying for peer %q: %w; give a peer ID like 12D3Koo…", id, err)
	}
	bad(len(c.Runs) > maxRelayNames || len(c.Peers) > maxRelayNames,
		"relaying for %d runs and %d peers: at most %d of each can be named", len(c.Runs), len(c.Peers), maxRelayNames)
	bad(c.Total < 0 || c.Total > 0 && c.Total < limits.MinRate,
		"relaying %d bytes a second in all: at least %d, or 0 for no bound", c.Total, limits.MinRate)
	bad(c.Duration < minRelayDuration, "relaying a connection for %s: at least %s", c.Duration, minRelayDuration)
	bad(c.Reservations < 1, "relaying to %d peers: at least 1", c.Reservations)
	return errors.Join(errs...)
}
