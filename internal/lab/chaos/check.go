package chaos

import (
	"fmt"
	"os"
	"slices"
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
	return []Check{checkRoots(ends, last), checkRecords(h), checkSlots(h, last), checkStates(h), checkPorts(h)}
}

func verdict(name string, faults []string, fine string) Check {
	if len(faults) == 0 {
		return Check{name, true, fine}
	}
	const most = 8
	if more := len(faults) - most; more > 0 {
		faults = append(faults[:most:most], fmt.Sprintf("and %d more", more))
	}
	return Check{name, false, strings.Join(faults, "; ")}
}

func checkRoots(ends []ending, last uint64) Check {
	var faults []string
	root := ""
	for _, e := range ends {
		switch {
		case !e.finished:
			faults = append(faults, fmt.Sprintf("peer %d did not finish: %s", e.peer, e.why))
		case e.slot != last:
			faults = append(faults, fmt.Sprintf("peer %d finished at slot %d, not %d", e.peer, e.slot, last))
		case root == "":
			root = e.root
		}
		if e.finished && (e.root != root || root == "") {
			faults = append(faults, fmt.Sprintf("peer %d has state root %q, not %q", e.peer, e.root, root))
		}
	}
	return verdict(CheckRoots, faults, fmt.Sprintf("%d peers, slot %d, %s", len(ends), last, root))
}

func checkRecords(h *history) Check {
	var faults []string
	at := map[uint64]string{}
	for _, r := range h.kept() {
		if other, taken := at[r.height]; taken {
			faults = append(faults, fmt.Sprintf("height %d: %s and %s", r.height, short(other), short(r.hash)))
		}
		at[r.height] = r.hash
	}
	return verdict(CheckRecords, faults, fmt.Sprintf("%d records, %d on %d branches that were given up", len(h.records),
		len(h.abandoned), h.branches()))
}

func checkSlots(h *history, last uint64) Check {
	faults := h.gaps
	steps := map[uint64]bool{}
	for _, r := range h.kept() {
		switch {
		case r.kind != "step":
		case !h.chain[r.hash]:
			faults = append(faults, fmt.Sprintf("slot %d, certified at height %d as %s, is not on the chain that "+
				"ended at height %d", r.slot, r.height, short(r.hash), h.tip.height))
		default:
			steps[r.slot] = true
		}
	}
	for slot := uint64(1); slot <= last && len(faults) == 0; slot++ {
		if !steps[slot] {
			faults = append(faults, fmt.Sprintf("slot %d is on no log's chain", slot))
		}
	}
	return verdict(CheckSlots, faults, fmt.Sprintf("%d slots", len(steps)))
}

func checkStates(h *history) Check {
	var faults []string
	states := 0
	for hash, roots := range h.states {
		states++
		if len(roots) < 2 {
			continue
		}
		var said []string
		for root, peers := range roots {
			said = append(said, fmt.Sprintf("%s (peers %v; 0 is a certificate)", short(root), peers))
		}
		faults = append(faults, fmt.Sprintf("after height %d: %s", h.records[hash].height, strings.Join(said, ", ")))
	}
	return verdict(CheckStates, faults, fmt.Sprintf("%d records", states))
}

// checkPorts: whoever comes back with its data listens where the others remember it.
func checkPorts(h *history) Check {
	return verdict(CheckPorts, h.moved, fmt.Sprintf("%d restarts", h.restarts))
}

// alarms are beginnings of lines that must not occur in a log.
var alarms = []string{"panic:", "fatal error:", "WARNING: DATA RACE", "unexpected fault address"}

func checkLogs(paths []string) Check {
	var faults []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			faults = append(faults, err.Error())
		}
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc(alarms, func(a string) bool { return strings.HasPrefix(line, a) }) {
				faults = append(faults, fmt.Sprintf("%s: %.200s", path, strings.TrimSpace(line)))
				break
			}
		}
	}
	return verdict(CheckLogs, faults, fmt.Sprintf("%d logs", len(paths)))
}

func short(hash string) string { return hash[:min(8, len(hash))] }
