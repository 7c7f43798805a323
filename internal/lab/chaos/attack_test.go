package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
)

// attacks are the names of those that a list stands for.
func attacks(t *testing.T, list string, seed uint64) (names []string) {
	t.Helper()
	kinds, err := ParseAttacks(list, seed)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

func TestParseAttacks(t *testing.T) {
	if got := attacks(t, "grab, mute,grab", 1); !slices.Equal(got, []string{"mute", "grab"}) {
		t.Errorf("got %v", got)
	}
	if all := attacks(t, "all", 1); len(all) != len(hostile.Kinds()) {
		t.Errorf("all are %v", all)
	}
	if _, err := ParseAttacks("grab,nap", 1); err == nil || !strings.Contains(err.Error(), `"nap" is no attack`) {
		t.Errorf("an unknown attack: %v", err)
	}
}

// TestDrawnAttacks: a seed draws three different ones, and with enough seeds each has its turn.
func TestDrawnAttacks(t *testing.T) {
	seen := map[string]bool{}
	for seed := uint64(1); seed <= 300; seed++ {
		names := attacks(t, "three", seed)
		if len(names) != 3 || !slices.Equal(names, attacks(t, "three", seed)) {
			t.Fatalf("seed %d: %v", seed, names)
		}
		for _, a := range names {
			seen[a] = true
		}
	}
	if len(seen) != len(hostile.Kinds()) {
		t.Errorf("300 seeds draw %v", seen)
	}
}

// TestVerdictSaysWhatIsNotChecked: what holds is said only where there was nothing to check.
func TestVerdictSaysWhatIsNotChecked(t *testing.T) {
	var b strings.Builder
	Verdict{Attack: "mute", Withstood: true, Checks: []Check{
		{hostile.CheckSaid, true, hostile.NotChecked + "too few deeds"}, {Name: hostile.CheckBranch, OK: true},
	}}.print(&b)
	if got := b.String(); !strings.Contains(got, "mute: withstood") ||
		!strings.Contains(got, "what was seen is said: not checked") || strings.Contains(got, hostile.CheckBranch) {
		t.Errorf("the report is %q", got)
	}
	b.Reset()
	if (Verdict{Attack: "mute"}).print(&b); !strings.Contains(b.String(), "mute: NOT withstood") {
		t.Errorf("the report is %q", b.String())
	}
}

// besieged is a run with a hostile peer, that went well: four honest peers have finished it.
func besieged(t *testing.T) (*assault, *mutant) {
	t.Helper()
	a := &assault{
		runner: paper(4), Story: hostile.Story{
			Kind: hostile.Kind{Name: "mute"}, From: 5, Foes: []string{"peer-5"}, Folder: t.TempDir(),
		},
	}
	c, err := lab.NewSwarm(lab.Setting{Executable: os.DevNull}, lab.Loopback{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	a.swarm, a.cfg.Slots, a.ledger.slot = c, 7, 7
	if err := os.WriteFile(filepath.Join(a.Folder, "deeds-peer-5"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &mutant{runner: a.runner, t: t}
	for i, p := range a.nodes {
		p.lines = append([]eventlog.Line{started(p.ID)}, life(1, 8, "")...)
		p.lines = append(p.lines, eventlog.Line{Event: "members.changed", Members: a.ledger.members})
		p.Process = &lab.Process{Stdout: filepath.Join(t.TempDir(), "out")}
		m.reports(i, eventlog.Peer{Ended: true, Slot: 7, StateRoot: rootOf(8, "")})
	}
	return a, m
}

// TestVerdictHasAllChecks: what any run is checked for counts in one with hostile peers, too, and
// so does what their own judge finds.
func TestVerdictHasAllChecks(t *testing.T) {
	for name, change := range map[string]func(a *assault, m *mutant){
		"":        func(*assault, *mutant) {},
		CheckHang: func(_ *assault, m *mutant) { m.failure = errors.New("no record") },
		CheckRoots: func(_ *assault, m *mutant) {
			m.reports(2, eventlog.Peer{Ended: true, Slot: 7, StateRoot: "other"})
		},
		CheckExits:        func(a *assault, _ *mutant) { a.ended = []string{"peer 1 ended by itself"} },
		CheckLogs:         func(_ *assault, m *mutant) { m.panics() },
		hostile.CheckCame: func(a *assault, m *mutant) { a.Folder = m.t.TempDir() },
		hostile.CheckNamed: func(a *assault, _ *mutant) {
			a.nodes[1].lines = append(a.nodes[1].lines, eventlog.Line{Event: standsOut, About: "peer-3"})
		},
	} {
		a, m := besieged(t)
		change(a, m)
		v := a.judge(m.failure)
		if got := strings.Join(failed(v.Checks), ""); got != name || v.Withstood != (name == "") {
			t.Errorf("what %q is for fails %q: %+v", name, got, v.Checks)
		}
	}
}
