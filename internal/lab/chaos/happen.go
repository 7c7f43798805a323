package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CheckHappen is the check that faults that wait for something did come about.
const CheckHappen = "faults come about"

// checkHappen: a fault that comes about never is one that a run says nothing of. Those that were
// missed are counted, and named. Half of all faults must have come about, and of a kind that was
// drawn more than once at least one.
func checkHappen(done []Injected) Check {
	drawn, came, missed := map[Kind]int{}, map[Kind]bool{}, map[string]int{}
	all := 0
	for _, f := range done {
		drawn[f.Kind]++
		if f.Missed {
			missed[f.name()]++
			all++
		} else {
			came[f.Kind] = true
		}
	}
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(drawn)) {
		if n := drawn[kind]; n > 1 && !came[kind] {
			faults = append(faults, fmt.Sprintf("%s: all of %d were missed", kind, n))
		}
	}
	if 2*all > len(done) {
		faults = append(faults, fmt.Sprintf("%d of %d faults were missed", all, len(done)))
	}
	fine := []string{fmt.Sprintf("%d of %d", len(done)-all, len(done))}
	for _, name := range slices.Sorted(maps.Keys(missed)) {
		fine = append(fine, fmt.Sprintf("%s: %d missed", name, missed[name]))
	}
	return verdict(CheckHappen, faults, strings.Join(fine, "; "))
}
