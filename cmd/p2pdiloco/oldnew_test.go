//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// oldCommit has the newest program whose peers this one's must get on with.
const oldCommit = "d21fa76a"

// mixed is a run of four peers, two of the old program and two of this one.
type mixed struct {
	*gated
	old string // the old program
}

// TestPeersOfTheOldProgramAndThisOne: peers of two programs found a run, train, are killed, come
// back and end with equal models, whichever program the founder has. Both give the same settings
// the same run ID, and their documents have the same keys.
func TestPeersOfTheOldProgramAndThisOne(t *testing.T) {
	if !testlevel.Nightly() {
		t.Skip("builds the program of an earlier commit: only with P2PDILOCO_TEST=nightly")
	}
	old := buildOld(t)
	for _, trust := range []string{"crash", "byzantine"} {
		name, ids := swarm.RunName("mixed"), map[string]string{}
		for _, founder := range []string{"old", "new"} {
			ok := t.Run(fmt.Sprintf("%s, founded by the %s one", trust, founder), func(t *testing.T) {
				m := &mixed{newGated(t, "--run", name, "--trust", trust, "--rounds", "12", "--inner-steps", "2",
					"--start-peers", "4", "--codec", "int8"), old}
				ids[founder] = m.run(founder)
			})
			if !ok {
				return
			}
		}
		// in a run of trust byzantine the spec names its founder
		if trust == "crash" && ids["old"] != ids["new"] {
			t.Errorf("the same settings have the run IDs %s and %s", ids["old"], ids["new"])
		}
	}
}

// buildOld builds the old program from the history of this repository.
func buildOld(t *testing.T) string {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err == nil {
		err = exec.Command("git", "cat-file", "-e", oldCommit+"^{commit}").Run()
	}
	if err != nil {
		t.Skipf("commit %s is not in this clone (fetch its whole history): %v", oldCommit, err)
	}
	tree, program := t.TempDir(), filepath.Join(t.TempDir(), "p2pdiloco-old")
	build := exec.Command("sh", "-c",
		`git -C "$1" archive "$2" | tar -x -C "$3" && cd "$3" && go build -o "$4" ./cmd/p2pdiloco`,
		"sh", strings.TrimSpace(string(top)), oldCommit, tree, program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", oldCommit, err, out)
	}
	return program
}

// by has a command line be the old program's, or leaves it this one's.
func (m *mixed) by(which string, p *clitest.Program) {
	if which == "old" {
		p.Path, p.Args[0] = m.old, m.old
	}
}

// start starts a peer, again if it was there before.
func (m *mixed) start(which, peer string) gatedPeer {
	m.t.Helper()
	p := m.prepare(peer)
	m.by(which, p.Program)
	return m.begin(p)
}

// run has four peers end a run, and returns its ID. While the others go on, one peer of each
// program is killed and comes back, and one of the old program comes back with this one.
func (m *mixed) run(founder string) string {
	m.t.Helper()
	m.open(3)
	other := map[string]string{"old": "new", "new": "old"}[founder]
	which := map[string]string{"a": founder, "b": founder, "c": other, "d": other}
	peers := map[string]gatedPeer{}
	for _, peer := range slices.Sorted(maps.Keys(which)) {
		peers[peer] = m.start(which[peer], peer)
	}
	m.reach(peers, 3)
	m.restart(which, peers, "b", 5)
	m.restart(which, peers, "c", 7)
	upgraded := map[string]string{"old": "b", "new": "d"}[founder]
	which[upgraded] = "new" // on the data directory of the old program
	m.restart(which, peers, upgraded, 9)
	statuses := map[string]string{}
	for peer, p := range peers {
		statuses[which[peer]] = m.document(which[peer], "status", "--json", "--data-dir", p.dir)
	}
	m.sameKeys("status --json", statuses)
	m.open(12)
	return m.end(which, peers)
}

// restart kills a peer, has the others go on to a slot, and all to the next one with it.
func (m *mixed) restart(which map[string]string, peers map[string]gatedPeer, victim string, slot uint64) {
	m.t.Helper()
	peers[victim].Signal(m.t, syscall.SIGKILL)
	peers[victim].Ends(m.t)
	m.open(slot)
	rest := maps.Clone(peers)
	delete(rest, victim)
	m.reach(rest, slot)
	peers[victim] = m.start(which[victim], victim)
	m.open(slot + 1)
	m.reach(peers, slot+1)
}

func (m *mixed) reach(peers map[string]gatedPeer, slot uint64) {
	m.t.Helper()
	for _, p := range peers {
		applies(m.t, p.events, slot)
	}
}

// end waits for the ends of all, which must have one model and one run, and returns the run's ID.
func (m *mixed) end(which map[string]string, peers map[string]gatedPeer) string {
	m.t.Helper()
	var first report.Peer
	joins, exports := map[string]string{}, map[string]string{}
	for _, peer := range slices.Sorted(maps.Keys(peers)) {
		r := read(m.t, peers[peer].Program)
		if first.RunID == "" {
			first = r
		}
		if r.Status != "ended" || r.Slot != 12 || r.StateRoot != first.StateRoot || r.RunID != first.RunID {
			m.t.Errorf("%s (%s): %+v; the first one has %+v", peer, which[peer], r, first)
		}
		joins[which[peer]] = peers[peer].Out.String()
		exports[which[peer]] = m.document(which[peer], "export", "--json", "--data-dir", peers[peer].dir, "--out",
			filepath.Join(m.home, peer+".safetensors"))
	}
	m.sameKeys("join --json", joins)
	m.sameKeys("export --json", exports)
	if a, b := m.read("a"), m.read("c"); a != b {
		m.t.Error("the two programs export other files")
	}
	return first.RunID
}

func (m *mixed) read(peer string) string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.home, peer+".safetensors"))
	must(m.t, err)
	return string(b)
}

// document is what a command prints.
func (m *mixed) document(which string, args ...string) string {
	m.t.Helper()
	p := clitest.New(m.t, m.home, args...)
	m.by(which, p)
	p.Begin(m.t)
	p.Exits(m.t, cli.ExitOK)
	return p.Out.String()
}

// sameKeys checks that this program's document has all keys of the old one's.
func (m *mixed) sameKeys(what string, documents map[string]string) {
	m.t.Helper()
	keys := map[string]map[string]any{}
	for which, text := range documents {
		var d map[string]any
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			m.t.Fatalf("%s of the %s program: %v", what, which, err)
		}
		keys[which] = d
	}
	for key := range keys["old"] {
		if _, is := keys["new"][key]; !is {
			m.t.Errorf("%s has no %q any more", what, key)
		}
	}
}
