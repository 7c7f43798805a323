package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the checks that hold the histories against what the faults may cost.
const (
	CheckGivenUp  = "slots given up only where a fault may cost them"
	CheckDown     = "members lost only to faults"
	CheckIdentity = "peers keep their identity"
)

// who says whose place among the members a fault may cost.
type who int

const (
	nobody who = iota
	victims
	everybody
)

// cost is what a kind of fault may cost the run. Everything else that is lost is a fault of the
// program, and fails a check.
type cost struct {
	down who // who may be no member for some time
	// with trust crash, or fewer than leastByzantine electors, certified slots of a branch may be
	// given up
	branch   bool
	identity bool   // the victims come back as new peers, without what they held
	says     string // what that means for the run
}

// mayCost is the model: for each kind what it may cost.
func (k Kind) mayCost() cost {
	switch k {
	case Kill, Leader, Load, Failpoint:
		return cost{down: victims, says: "the victim's contributions until it is back"}
	case Restart:
		return cost{down: victims, says: "the victim's contributions until it is back; it leaves in order"}
	case Wipe, WipeTwo:
		return cost{
			down: victims, identity: true,
			says: "the victims' contributions until they are listed again, as new members",
		}
	case Stop, OneWay, Cut, Flap:
		return cost{down: victims, says: "the victim's contributions while it is not heard, and until it is back"}
	case Slow, Loss: // a victim that leads leaves out those of which it heard nothing for too long
		return cost{down: everybody, says: "contributions that come too late"}
	case Pair, FlapPair:
		return cost{says: "nothing: others relay between the two"}
	case All:
		return cost{down: everybody, says: "the slot under way"}
	case Bootstrap:
		return cost{says: "nothing: peers know each other"}
	case Late, Clock:
		return cost{says: "nothing"}
	case Turns, Partition:
		return cost{
			down: everybody, branch: true,
			says: "slots of a branch that is given up when the sides meet; with trust byzantine only if " +
				"fewer than four had a vote",
		}
	case Apart:
		return cost{
			down: everybody, branch: true,
			says: "slots of the branch of one side; the model is that of the side which ended the run; with trust " +
				"byzantine only the contributions of the smaller side",
		}
	case End:
		return cost{
			down: victims,
			says: "the victim's contributions to the last slots; its model is the others'",
		}
	case DiskFull:
		return cost{
			down: victims,
			says: "the victim's contributions until there is room; it ends with status 1 and says that there is none",
		}
	}
	return cost{}
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
		c := k.mayCost()
		down := [...]string{nobody: "nobody", victims: "its victims", everybody: "everybody"}[c.down]
		fmt.Fprintf(b, "  %-10s %s (no members for some time: %s)\n", k, c.says, down)
	}
}
