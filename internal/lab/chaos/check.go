package chaos

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Check is one thing that must hold at the end.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // the faults found, or how much was checked
}

// Names of the checks.
const (
	CheckRoots   = "all finish with equal state roots"
	CheckRecords = "one certified record a height"
	CheckSlots   = "no certified slot lost"
	CheckStates  = "states as certified"
	CheckPorts   = "peers keep their addresses"
	CheckHang    = "no hang"
	CheckHappen  = "faults come about" // those that wait for something
	CheckFaults  = "faults end as they should"
	CheckExits   = "no process ended by itself"
	CheckLogs    = "no panic in the logs"
)

// ending is how one peer's last process ended.
type ending struct {
	peer     int
	finished bool // by itself, with status 0, after the last slot
	slot     uint64
	root     string
	why      string // where it did not finish
}

// verdicts are the checks that follow from the logs and the endings. last is the run's last slot.
func verdicts(h *history, ends []ending, last uint64) []Check {
	return []Check{
		checkRoots(ends, last), checkRecords(h), checkSlots(h, last), checkStates(h),
		// whoever comes back with its data listens where the others remember it
		verdict(CheckPorts, h.moved, "%d restarts", h.restarts),
	}
}

// findings are what a check has found wrong.
type findings []string

func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// verdict is a check by what it has found; fine says how much was checked.
func verdict(name string, found findings, fine string, args ...any) Check {
	if len(found) == 0 {
		return Check{name, true, fmt.Sprintf(fine, args...)}
	}
	const most = 8
	if more := len(found) - most; more > 0 {
		found = found[:most:most]
		found.add("and %d more", more)
	}
	return Check{name, false, strings.Join(found, "; ")}
}

func checkRoots(ends []ending, last uint64) Check {
	var found findings
	root := ""
	for _, e := range ends {
		switch {
		case !e.finished:
			found.add("peer %d did not finish: %s", e.peer, e.why)
		case e.slot != last:
			found.add("peer %d finished at slot %d, not %d", e.peer, e.slot, last)
		case root == "":
			root = e.root
		}
		if e.finished && (e.root != root || root == "") {
			found.add("peer %d has state root %q, not %q", e.peer, e.root, root)
		}
	}
	return verdict(CheckRoots, found, "%d peers, slot %d, %s", len(ends), last, root)
}

func checkRecords(h *history) Check {
	var found findings
	at := map[uint64]*record{}
	for _, r := range h.order {
		if other := at[r.Height]; other != nil && !r.abandoned {
			found.add("height %d: %s and %s", r.Height, other, r)
		} else if !r.abandoned {
			at[r.Height] = r
		}
	}
	return verdict(CheckRecords, found, "%d records", len(h.order))
}

func checkSlots(h *history, last uint64) Check {
	found := h.gaps
	steps := map[uint64]bool{}
	for _, r := range h.order {
		switch {
		case r.Kind != "step":
		case r.chain:
			steps[r.Slot] = true
		case !r.abandoned:
			found.add("slot %d, certified at height %d as %s, is not on the chain that ended at height %d", r.Slot,
				r.Height, r, h.tip.Height)
		}
	}
	for slot := uint64(1); slot <= last && len(found) == 0; slot++ {
		if !steps[slot] {
			found.add("slot %d is on no log's chain", slot)
		}
	}
	return verdict(CheckSlots, found, "%d slots", len(steps))
}

func checkStates(h *history) Check {
	var found findings
	for _, r := range h.records {
		if len(r.states) > 1 {
			found.add("after height %d the state roots are, of peers (0 is a certificate): %v", r.Height, r.states)
		}
	}
	return verdict(CheckStates, found, "%d records", len(h.order))
}

// checkHappen: a fault that comes about never is one that a run says nothing of. Those that were
// missed are counted, and named. Half of all faults must have come about, and of a kind that was
// drawn more than once at least one.
func checkHappen(done []Injected) Check {
	drawn, came := map[Kind]int{}, map[Kind]bool{}
	var missed []string
	for _, f := range done {
		if drawn[f.Kind]++; f.Missed {
			missed = append(missed, f.name())
		} else {
			came[f.Kind] = true
		}
	}
	var found findings
	for kind, n := range drawn {
		if n > 1 && !came[kind] {
			found.add("%s: all of %d were missed", kind, n)
		}
	}
	if 2*len(missed) > len(done) {
		found.add("%d of %d faults were missed", len(missed), len(done))
	}
	return verdict(CheckHappen, found, "%d of %d; missed: %v", len(done)-len(missed), len(done), missed)
}

// alarm is a line that must not occur in a log.
var alarm = regexp.MustCompile("(?m)^(panic:|fatal error:|WARNING: DATA RACE|unexpected fault address).*")

func checkLogs(paths []string) Check {
	var found findings
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			found.add("%v", err)
		}
		if line := alarm.Find(text); line != nil {
			found.add("%s: %.200s", path, line)
		}
	}
	return verdict(CheckLogs, found, "%d logs", len(paths))
}
