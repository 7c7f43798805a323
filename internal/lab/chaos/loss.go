package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mayLose says what a kind of fault may cost the run. Everything else that is lost is a fault of
// the program, and fails a check.
func (k Kind) mayLose() string {
	switch k {
	case Kill, Leader, Load:
		return "the victim's contributions until it is back"
	case Restart:
		return "the victim's contributions until it is back; it leaves in order"
	case Wipe, WipeTwo:
		return "the victims' contributions until they are listed again, as new members"
	case Stop, Cut, OneWay, Flap:
		return "the victim's contributions while it is not heard, and until it is back"
	case Slow, Loss:
		return "contributions that come too late"
	case Pair:
		return "nothing: others forward between the two"
	case All:
		return "the slot under way"
	case Bootstrap:
		return "nothing: peers know each other"
	case Late:
		return "nothing"
	case Turns, Partition:
		return "slots of a branch that is given up when the sides meet"
	case End:
		return "the victim's contributions to the last slots; its model is the others'"
	case Clone:
		return "the victim's contributions until one process is started again; both end with status 1 and peer.cloned"
	case DiskFull:
		return "the victim's contributions until there is room; it ends with status 1 and says that there is none"
	}
	return ""
}

// lossLines say what the faults that came about could cost.
func lossLines(b *strings.Builder, faults []Injected) {
	met := map[Kind]bool{}
	for _, f := range faults {
		met[f.Kind] = true
	}
	if len(met) > 0 {
		fmt.Fprintln(b, "\nWhat may be lost:")
	}
	for _, k := range slices.Sorted(maps.Keys(met)) {
		fmt.Fprintf(b, "  %-10s %s\n", k, k.mayLose())
	}
}
