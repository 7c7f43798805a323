package chaos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

const lastSlot = 6

// certify is the event of a record: height h follows height h-1 on a branch; slot 0 is the
// founding.
func certify(height uint64, branch string) eventlog.Line {
	kind := "step"
	if height == 1 {
		kind = "fork"
	}
	return eventlog.Line{
		Event: "record.certified", Height: height, Slot: height - 1, Kind: kind, Record: hashOf(height, branch),
		Prev:          hashOf(height-1, branch),
		CertifiedRoot: rootOf(height-1, branch), Electors: 4,
	}
}

// Branches part after height 4.
func of(height uint64, branch string) string {
	if height <= 4 {
		return ""
	}
	return branch
}

func hashOf(height uint64, branch string) string {
	return fmt.Sprintf("record-%d%s", height, of(height, branch))
}

func rootOf(height uint64, branch string) string {
	return fmt.Sprintf("state-%d%s", height, of(height, branch))
}

func applied(height uint64, branch string) eventlog.Line {
	return eventlog.Line{Event: "slot.applied", Height: height, Slot: height - 1, StateRoot: rootOf(height, branch)}
}

func started(id string) eventlog.Line { return eventlog.Line{Event: "peer.started", PeerID: id} }

// life is the log of a peer that takes part from height from to height to.
func life(from, to uint64, branch string) (lines []eventlog.Line) {
	for h := from; h <= to; h++ {
		lines = append(lines, certify(h, branch))
		if h > 1 {
			lines = append(lines, applied(h, branch))
		}
	}
	return lines
}

// goodRun is the logs and endings of three peers through all slots, among them a restart, and a
// newcomer with a fetched state.
func goodRun() ([][]eventlog.Line, []ending) {
	top := uint64(lastSlot + 1)
	late := []eventlog.Line{started("C")}
	for h := uint64(1); h <= 4; h++ {
		late = append(late, certify(h, ""))
	}
	late = append(late, eventlog.Line{Event: "state.synced", Height: 4, Slot: 3, StateRoot: rootOf(4, "")})
	logs := [][]eventlog.Line{
		append([]eventlog.Line{started("A")}, life(1, top, "")...),
		slices.Concat([]eventlog.Line{started("B")}, life(1, 3, ""),
			[]eventlog.Line{started("B"), applied(2, ""), applied(3, "")}, life(4, top, "")),
		append(late, life(5, top, "")...),
	}
	var ends []ending
	for i := range logs {
		ends = append(ends, ending{peer: i + 1, finished: true, slot: lastSlot, root: rootOf(top, "")})
	}
	return logs, ends
}

// branchOff gives peer 2 a branch of its own at heights 5 and 6, before what it lived through with
// the others. It gives the branch up, or not.
func branchOff(logs [][]eventlog.Line, gaveUp bool) {
	own := append([]eventlog.Line{started("B")}, life(1, 6, "x")...)
	if gaveUp {
		own = append(own, eventlog.Line{Event: "run.switched", Height: lastSlot + 1})
	}
	logs[1] = append(own, life(5, lastSlot+1, "")...)
}

func failed(checks []Check) (names []string) {
	for _, c := range checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

func judge(logs [][]eventlog.Line, ends []ending) []Check {
	var finished []bool
	for _, e := range ends {
		finished = append(finished, e.finished)
	}
	return verdicts(readHistory(logs, finished), ends, lastSlot)
}

// TestEachCheckFails puts one fault after the other into a good run: the check that is there for it
// must fail.
func TestEachCheckFails(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(logs [][]eventlog.Line, ends []ending)
		want  []string
	}{
		"nothing": {func([][]eventlog.Line, []ending) {}, nil},
		"another root": {
			func(_ [][]eventlog.Line, ends []ending) { ends[1].root = "other" },
			[]string{CheckRoots},
		},
		"no root": {func(_ [][]eventlog.Line, ends []ending) { ends[0].root = "" }, []string{CheckRoots}},
		"one does not finish": {
			func(_ [][]eventlog.Line, ends []ending) { ends[2].finished = false },
			[]string{CheckRoots},
		},
		"one ends early": {func(_ [][]eventlog.Line, ends []ending) { ends[0].slot-- }, []string{CheckRoots}},
		"two records of a height": {func(logs [][]eventlog.Line, _ []ending) {
			branchOff(logs, false)
		}, []string{CheckRecords, CheckSlots}},
		"a branch that was given up": {func(logs [][]eventlog.Line, _ []ending) { branchOff(logs, true) }, nil},
		"a branch whose holder died, given up by another": {func(logs [][]eventlog.Line, _ []ending) {
			branchOff(logs, true)
			logs[2] = slices.Concat(logs[2], []eventlog.Line{started("D")}, life(1, 7, "x"),
				[]eventlog.Line{started("E")}, life(1, lastSlot+1, ""))
		}, nil},
		"a branch whose holder died, and a later part of it was given up": {func(logs [][]eventlog.Line, _ []ending) {
			branchOff(logs, true)
			// a kill swallowed its event
			logs[1] = slices.DeleteFunc(logs[1], func(l eventlog.Line) bool { return l.Record == hashOf(5, "x") })
			logs[2] = slices.Concat([]eventlog.Line{started("D")}, life(1, 5, "x"), logs[2])
		}, nil},
		"a record after the last slot": {func(logs [][]eventlog.Line, _ []ending) {
			closing := certify(8, "")
			closing.Kind = "members"
			logs[0] = append(logs[0], closing)
		}, nil},
		"a committed slot of one that did not finish": {func(logs [][]eventlog.Line, ends []ending) {
			logs[0], ends[0].finished = append(logs[0], certify(8, "")), false
		}, []string{CheckRoots, CheckSlots}},
		"a line that comes late, of another chain": {func(logs [][]eventlog.Line, _ []ending) {
			branchOff(logs, true)
			logs[1] = append(logs[1], eventlog.Line{
				Event: "slot.applied", Height: 6, Slot: 5, Record: hashOf(6, "x"), StateRoot: rootOf(6, "x"),
			})
		}, []string{CheckSlots}},
		"the same without its record": {func(logs [][]eventlog.Line, _ []ending) {
			branchOff(logs, true)
			late := eventlog.Line{Event: "slot.applied", Height: 6, Slot: 5, StateRoot: rootOf(6, "x")}
			logs[1] = append(logs[1], late)
		}, []string{CheckSlots, CheckStates}},
		"a slot passed over": {func(logs [][]eventlog.Line, _ []ending) {
			logs[0] = slices.DeleteFunc(logs[0],
				func(l eventlog.Line) bool { return l.Event == "slot.applied" && l.Slot == 3 })
		}, []string{CheckSlots}},
		"slots passed over by a restart": {func(logs [][]eventlog.Line, _ []ending) {
			restart := slices.IndexFunc(logs[1][1:], func(l eventlog.Line) bool { return l.Event == "peer.started" }) +
				2
			logs[1] = slices.Concat(logs[1][:restart], life(6, lastSlot+1, ""))
		}, []string{CheckSlots}},
		"a slot on no chain": {func(logs [][]eventlog.Line, _ []ending) {
			for i := range logs {
				logs[i] = slices.DeleteFunc(logs[i],
					func(l eventlog.Line) bool { return l.Event == "record.certified" && l.Slot == 2 })
			}
		}, []string{CheckSlots}},
		"two states after a record": {func(logs [][]eventlog.Line, _ []ending) {
			i := slices.IndexFunc(logs[2], func(l eventlog.Line) bool {
				return l.Event == "slot.applied" &&
					l.Slot == 5
			})
			logs[2][i].StateRoot = "other"
		}, []string{CheckStates}},
		"a state that is not the certified one": {func(logs [][]eventlog.Line, _ []ending) {
			for _, lines := range logs {
				for i := range lines {
					if lines[i].Event == "slot.applied" && lines[i].Slot == 5 {
						lines[i].StateRoot = "other"
					}
				}
			}
		}, []string{CheckStates}},
		"another port after a restart": {func(logs [][]eventlog.Line, _ []ending) {
			logs[1][0].Addrs = []string{"/ip4/127.0.0.1/tcp/1"} // and the restart names none
		}, []string{CheckPorts}},
		"the same ports after a restart": {func(logs [][]eventlog.Line, _ []ending) {
			places := []string{"/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/2/quic-v1"}
			for i, l := range logs[1] {
				if l.Event == "peer.started" {
					logs[1][i].Addrs = slices.Clone(places)
					slices.Reverse(places)
				}
			}
		}, nil},
		"another port of a new peer": {func(logs [][]eventlog.Line, _ []ending) {
			logs[1] = append([]eventlog.Line{{
				Event: "peer.started", PeerID: "Z", Addrs: []string{"/ip4/127.0.0.1/tcp/1"},
			}}, logs[1]...)
		}, nil},
	} {
		logs, ends := goodRun()
		c.spoil(logs, ends)
		checks := judge(logs, ends)
		if got := failed(checks); !slices.Equal(got, c.want) {
			t.Errorf("%s: failed %q, want %q: %+v", name, got, c.want, checks)
		}
	}
}
