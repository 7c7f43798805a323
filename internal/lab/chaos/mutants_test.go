package chaos

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// mutant is a run in which nothing is wrong, before one thing of it is changed.
type mutant struct {
	*runner
	t       *testing.T
	failure error // that ended the run early
}

// fine is a run of three peers, in which peer 2 was told to leave and came back: what its logs say,
// and how its processes ended.
func fine(t *testing.T) *mutant {
	t.Helper()
	m := &mutant{runner: paper(3), t: t}
	c, err := lab.NewSwarm(lab.Setting{Executable: os.DevNull}, lab.Loopback{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	logs, ends := goodRun()
	losesB(logs)
	timed(logs)
	m.swarm, m.cfg.Slots = c, lastSlot
	restart := suffered("restart", 4, 6, 2)
	restart.Return = 1.5
	m.done = []Injected{restart}
	for i, p := range m.nodes {
		dir := t.TempDir()
		p.lines, p.Process = logs[i], &lab.Process{Stdout: filepath.Join(dir, "out"), Log: filepath.Join(dir, "log")}
		m.reports(i, eventlog.Peer{Ended: true, Status: "ended", Slot: ends[i].slot, StateRoot: ends[i].root})
	}
	return m
}

func (m *mutant) writes(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// reports is what a peer printed at its end.
func (m *mutant) reports(i int, r eventlog.Peer) {
	m.t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		m.t.Fatal(err)
	}
	m.writes(m.nodes[i].Stdout, string(b))
}

// logs are the events of all peers, which may be changed in place.
func (m *mutant) logs() (logs [][]eventlog.Line) {
	for _, p := range m.nodes {
		logs = append(logs, p.lines)
	}
	return logs
}

func (m *mutant) setLogs(logs [][]eventlog.Line) {
	timed(logs)
	for i, p := range m.nodes {
		p.lines = logs[i]
	}
}

// panics has a process of the run print a panic.
func (m *mutant) panics() {
	shell, err := exec.LookPath("sh")
	if err != nil {
		m.t.Skip(err)
	}
	p, err := m.swarm.Start(exec.Command(shell, "-c", "echo panic: oh no >&2"), m.t.TempDir(), "one")
	if err != nil {
		m.t.Fatal(err)
	}
	<-p.Ended
}

// mutants are, for each check of a run, a change that it is there to find.
var mutants = map[string]func(m *mutant){
	CheckRoots: func(m *mutant) {
		m.reports(2, eventlog.Peer{Ended: true, Slot: lastSlot, StateRoot: "other"})
	},
	CheckRecords: func(m *mutant) {
		logs := m.logs()
		members := certify(5, "x")
		members.Kind = "members" // one that lists nobody anew
		logs[2] = append(logs[2], members)
		m.setLogs(logs)
	},
	CheckSlots: func(m *mutant) {
		m.nodes[0].lines = slices.DeleteFunc(m.nodes[0].lines, func(l eventlog.Line) bool {
			return l.Event == "slot.applied" && l.Slot == 3
		})
	},
	CheckStates: func(m *mutant) {
		for i, l := range m.nodes[2].lines {
			if l.Event == "slot.applied" && l.Slot == 5 {
				m.nodes[2].lines[i].StateRoot = "other"
			}
		}
	},
	CheckPorts:   func(m *mutant) { m.nodes[1].lines[0].Addrs = []string{"/ip4/127.0.0.1/tcp/1"} },
	CheckGivenUp: func(m *mutant) { logs := m.logs(); branchOff(logs, true); m.setLogs(logs) },
	CheckDown:    func(m *mutant) { m.done[0].Victims = []int{3} },
	CheckIdentity: func(m *mutant) {
		for i, l := range m.nodes[1].lines {
			if i > 0 && l.Event == "peer.started" {
				m.nodes[1].lines[i].PeerID = "D"
			}
		}
	},
	CheckHang: func(m *mutant) {
		m.gate.slot, m.ledger.progress = lastSlot, time.Now().Add(-2*stuckAfter)
		m.failure = m.stuck()
	},
	CheckHappen: func(m *mutant) {
		never := Injected{Fault: Fault{Kind: "leader"}, Missed: true}
		m.done = append(m.done, never, never)
	},
	CheckFaults: func(m *mutant) { m.isOdd(m.suffer("turns", "advance", 2), noBranch) },
	CheckExits:  func(m *mutant) { m.ended = []string{"peer 1 ended by itself"} },
	CheckLogs:   (*mutant).panics,
}

// TestEachCheckHasAMutant: whoever adds a check adds what it must find, and no other may find that.
func TestEachCheckHasAMutant(t *testing.T) {
	whole := fine(t).result(nil)
	if got := failed(whole.Checks); len(got) > 0 || !whole.OK {
		t.Fatalf("in a run without a fault these fail: %q, %+v", got, whole.Checks)
	}
	var names []string
	for _, c := range whole.Checks {
		names = append(names, c.Name)
	}
	if all := slices.Sorted(maps.Keys(mutants)); !slices.Equal(slices.Sorted(slices.Values(names)), all) {
		t.Errorf("there are the checks %q, and mutants of %q", names, all)
	}
	for name, change := range mutants {
		m := fine(t)
		change(m)
		res := m.result(m.failure)
		if got := failed(res.Checks); res.OK || !slices.Equal(got, []string{name}) {
			t.Errorf("what %q is for fails %q: %+v", name, got, res.Checks)
		}
	}
}

// TestProcessesThatEndByThemselves: the end of a process is a fault of the run, but where it was
// told to end, must end by what is done to it, or has finished the run.
func TestProcessesThatEndByThemselves(t *testing.T) {
	done := &eventlog.Peer{Ended: true}
	for name, c := range map[string]struct {
		command string
		asked   bool
		doing   string // of a fault that hurts it; empty: none does
		report  *eventlog.Peer
		want    int
	}{
		"finished":                 {"exit 0", false, "", done, 0},
		"without a report":         {"exit 0", false, "", nil, 1},
		"with an error":            {"exit 1", false, "", done, 1},
		"told to leave":            {"exit 0", true, "", nil, 0},
		"told to leave, and fails": {"exit 1", true, "", nil, 1},
		"killed":                   {"kill -9 $$", true, "", nil, 0},
		"killed by somebody else":  {"kill -9 $$", false, "", nil, 1},
		"while it is stopped":      {"exit 1", false, "lasts", nil, 1},
		"a full disk":              {"echo no space left >&2; exit 1", false, "full", nil, 0},
		"a full disk, without why": {"exit 1", false, "full", nil, 1},
		"a full disk, no error":    {"echo no space left >&2", false, "full", nil, 1},
	} {
		m := fine(t)
		shell, err := exec.LookPath("sh")
		if err != nil {
			t.Skip(err)
		}
		p := m.nodes[1]
		if p.Process, err = m.swarm.Start(exec.Command(shell, "-c", c.command), t.TempDir(), "one"); err != nil {
			t.Fatal(err)
		}
		<-p.Ended
		if p.asked = c.asked; c.doing != "" {
			m.suffer("stop", c.doing, 2)
		}
		m.nodes = m.nodes[1:2]
		if c.report != nil {
			m.reports(0, *c.report)
		}
		m.boot = m.runningBoot()
		if err := m.reap(); len(m.ended) != c.want || (err == nil) != (c.want == 0) || !p.gone {
			t.Errorf("%s: %q, %v, gone %v", name, m.ended, err, p.gone)
		}
	}
}

// runningBoot is a bootstrap node that lives as long as the test.
func (m *mutant) runningBoot() lab.Boot {
	m.t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		m.t.Skip(err)
	}
	p, err := m.swarm.Start(exec.Command(sleep, "600"), m.t.TempDir(), "boot")
	if err != nil {
		m.t.Fatal(err)
	}
	return lab.Boot{Process: p}
}
