package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

var dawn = time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)

// when is the time of a record: one a minute.
func when(height uint64) time.Time { return dawn.Add(time.Duration(height) * time.Minute) }

// timed gives events the time of their record, and those without a height that of the event before.
func timed(logs [][]eventlog.Line) {
	for _, lines := range logs {
		at := dawn
		for i := range lines {
			if lines[i].Height > 0 {
				at = when(lines[i].Height)
			}
			lines[i].Time = at
		}
	}
}

// suffered is a fault that began with one record and was over with another one.
func suffered(kind Kind, from, to uint64, peers ...int) Injected {
	return Injected{Fault: Fault{Kind: kind}, Victims: peers, began: when(from), over: when(to)}
}

// list adds to a log that the record at a height lists some members.
func list(logs [][]eventlog.Line, log int, height uint64, members ...string) {
	i := slices.IndexFunc(logs[log], func(l eventlog.Line) bool {
		return l.Event == "record.certified" && l.Height == height
	})
	line := eventlog.Line{Event: "members.changed", Height: height, Members: members}
	logs[log] = slices.Insert(logs[log], i+1, line)
}

// losesB has the chain leave out peer 2 at height 5, and list it again.
func losesB(logs [][]eventlog.Line) {
	list(logs, 0, 3, "A", "B", "C")
	list(logs, 0, 5, "A", "C")
	list(logs, 0, 6, "A", "B", "C")
}

// comesBackAs has peer 2 come back under another ID after height 4.
func comesBackAs(id string) func([][]eventlog.Line) {
	return func(logs [][]eventlog.Line) {
		synced := eventlog.Line{Event: "state.synced", Height: 4, Slot: 3, StateRoot: rootOf(4, "")}
		logs[1] = slices.Concat([]eventlog.Line{started("B")}, life(1, 4, ""), []eventlog.Line{
			started(id), certify(1, ""), certify(2, ""), certify(3, ""), certify(4, ""), synced,
		}, life(5, lastSlot+1, ""))
	}
}

// TestTheBill puts losses into a good run: each must fail its check unless a fault that was under
// way may cost it.
func TestTheBill(t *testing.T) {
	branch := func(logs [][]eventlog.Line) { branchOff(logs, true) }
	branchOf := func(electors int) func([][]eventlog.Line) {
		return func(logs [][]eventlog.Line) {
			branch(logs)
			for _, log := range logs {
				for i := range log {
					log[i].Electors = electors
				}
			}
		}
	}
	end := func(logs [][]eventlog.Line) {
		list(logs, 0, 3, "A", "B", "C")
		list(logs, 0, lastSlot+1, "A")
	}
	for _, c := range []struct {
		name      string
		spoil     func([][]eventlog.Line)
		byzantine bool
		kind      Kind // of a fault; empty: there is none
		from, to  uint64
		victim    int
		want      string // the check that fails; empty: none
	}{
		{"nothing is lost", func([][]eventlog.Line) {}, false, "", 0, 0, 0, ""},

		{"a branch, and no fault", branch, false, "", 0, 0, 0, CheckGivenUp},
		{"a branch of a kill", branch, false, "kill", 4, 7, 2, CheckGivenUp},
		{"a branch of a partition", branch, false, "partition", 4, 7, 2, ""},
		{"with trust byzantine", branch, true, "partition", 4, 7, 2, CheckGivenUp},
		{"with trust byzantine and three electors", branchOf(3), true, "partition", 4, 7, 2, ""},
		{"and of nobody knows how many", branchOf(0), true, "partition", 4, 7, 2, CheckGivenUp},
		{"before a partition", branch, false, "partition", 7, 8, 2, CheckGivenUp},
		{"long after one", branch, false, "partition", 2, 3, 2, CheckGivenUp},

		{"a member is lost to nothing", losesB, false, "", 0, 0, 0, CheckDown},
		{"to its kill", losesB, false, "kill", 4, 6, 2, ""},
		{"to another one's kill", losesB, false, "kill", 4, 6, 1, CheckDown},
		{"to its kill long ago", losesB, false, "kill", 2, 3, 2, CheckDown},
		{"to a bootstrap node's end", losesB, false, "bootstrap", 4, 6, 0, CheckDown},
		{"to a cut pair", losesB, false, "pair", 4, 6, 2, CheckDown},
		{"to a link that flaps", losesB, false, "flap", 4, 6, 2, ""},
		{"to a leader on a slow link", losesB, false, "slow", 4, 6, 1, ""},
		{"to a partition", losesB, false, "partition", 4, 6, 1, ""},
		{"to a fault that is not over", losesB, false, "kill", 4, 0, 2, ""},
		{"members leave after the last slot", end, false, "", 0, 0, 0, ""},

		{"another identity, and no fault", comesBackAs("D"), false, "", 0, 0, 0, CheckIdentity},
		{"after a wipe", comesBackAs("D"), false, "wipe", 4, 6, 2, ""},
		{"after a kill", comesBackAs("D"), true, "kill", 4, 6, 2, CheckIdentity},
		{"a restart under the same", comesBackAs("B"), false, "", 0, 0, 0, ""},
		{"the old one is lost later", func(logs [][]eventlog.Line) {
			comesBackAs("D")(logs)
			list(logs, 0, 3, "A", "B", "C")
			list(logs, 0, 6, "A", "D", "C")
		}, false, "wipe", 4, 5, 2, ""},
	} {
		logs, _ := goodRun()
		c.spoil(logs)
		timed(logs)
		f := suffered(c.kind, c.from, c.to, c.victim)
		if c.to == 0 {
			f.over = time.Time{}
		}
		b := bill{faults: []Injected{f}, byzantine: c.byzantine, last: lastSlot, late: time.Second}
		checks := b.check(readHistory(logs, []bool{true, true, true}))
		if got := strings.Join(failed(checks), ", "); got != c.want {
			t.Errorf("%s: failed %q, want %q: %+v", c.name, got, c.want, checks)
		}
	}
}

// TestAMissedFaultCostsNothing: what has not come about is no excuse.
func TestAMissedFaultCostsNothing(t *testing.T) {
	f := suffered("kill", 4, 6, 2)
	for _, f.Missed = range []bool{false, true} {
		if (bill{faults: []Injected{f}}).covers(when(5), func(Injected, row) bool { return true }) == f.Missed {
			t.Errorf("missed %v: it covers a loss, or does not", f.Missed)
		}
	}
}

// TestWhatARestartMayLose: a peer starts from one of its two newest checkpoints, and three in a row
// may have been left out before.
func TestWhatARestartMayLose(t *testing.T) {
	for from, want := range map[uint64]bool{1: false, 2: false, 3: true, 22: true, 23: true, 25: false} {
		lines := []eventlog.Line{started("A")}
		for slot := uint64(1); slot <= 22; slot++ {
			lines = append(lines, certify(slot+1, ""), applied(slot+1, ""))
		}
		again := applied(from+1, "")
		h := readHistory([][]eventlog.Line{append(lines, started("A"), again)}, []bool{true})
		if fine := len(h.gaps) == 0; fine != want {
			t.Errorf("slot %d after slot 22 and a restart: %q", from, strings.Join(h.gaps, "; "))
		}
	}
}
