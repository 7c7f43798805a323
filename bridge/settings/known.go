package settings

import (
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// elsewhere are the flags of the program's other commands: a config file may hold them, and a variable be set for them. A test of
// cmd/p2pdiloco holds the list against the commands.
var elsewhere = []string{
	"absolute", "addr-file", "against", "against-config", "codecs", "delay", "elements", "faults", "force", "frame", "goals", "identity", "iters",
	"keep-dir", "kinds", "limit", "modes", "netns", "no-baseline", "out", "pairs", "peers", "profile", "quick", "rate", "relative",
	"relay", "relay-day", "relay-open", "relay-peer", "relay-peers", "relay-rate", "relay-run", "relay-time", "relay-total", "roots", "security",
	"seeds", "size", "slot", "slots", "step-time", "steps", "timeout", "transport", "ttl", "uses", "warm-steps", "with-momentum", "wrap", "write", "yes",
}

// Known are the names of all flags of all commands.
func Known() sources.Known {
	known := sources.Known{sources.ConfigFlag: true}
	for _, d := range definitions {
		known[d.name] = d.use != ofTests
	}
	for _, name := range elsewhere {
		known[name] = true
	}
	return known
}

// flagOf is the flag of a field of the run spec.
func flagOf(field string) string {
	if field == "name" {
		return "run"
	}
	return strings.ReplaceAll(field, "_", "-")
}
