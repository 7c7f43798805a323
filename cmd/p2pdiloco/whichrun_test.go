//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// otherRun is the exit status of a peer that does not know which run is meant (docs).
const otherRun = 4

// bootNode starts a bootstrap node and returns its address. Flags may say where it listens.
func bootNode(t *testing.T, listen ...string) string {
	t.Helper()
	home, text := t.TempDir(), []byte{}
	file := filepath.Join(home, "addrs")
	if len(listen) == 0 {
		listen = onLoopback
	}
	_ = clitest.Start(t, home, append([]string{"bootstrap", "--addr-file", file}, listen...)...)
	clitest.Until(t, "the address file", func() bool { text, _ = os.ReadFile(file); return len(text) > 0 })
	addr, _, _ := strings.Cut(string(text), "\n")
	return addr
}

// endsAsOther wants a peer to end with status 4 before it is a member of any run, and returns what
// it said.
func endsAsOther(t *testing.T, p *clitest.Program, events string) string {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
	defer late.Stop()
	said := p.Exits(t, otherRun)
	if exists(events) && slices.ContainsFunc(lines(t, events), func(e eventlog.Line) bool {
		return e.Event == "run.joined" || e.Event == "run.founded"
	}) {
		t.Errorf("%v: it is a member of a run, where it cannot know which one is meant", p.Args[1:])
	}
	return said
}

// TestNoSecondRunBesideAPrivateOne: on a machine with a peer of a private run, whose members do not
// answer those who know no more than its name, join founds no second run of that name. It says
// which run is here, and what to do.
func TestNoSecondRunBesideAPrivateOne(t *testing.T) {
	t.Parallel()
	home, name, boot := t.TempDir(), lab.RunName("team"), bootNode(t)
	first, events := startPeer(t, home, "--run", name, "--bootstrap", boot, "--access", "private", "--rounds",
		"100000", "--inner-steps", "2", "--outer", "sgd")
	id := clitest.Await(t, events, "run.founded").RunID
	applies(t, events, 1)
	for _, more := range [][]string{nil, {"--data-dir", filepath.Join(home, "named")}} {
		events := filepath.Join(t.TempDir(), "events")
		second, _ := startPeer(t, home, append(more, "--run", name, "--bootstrap", boot, "--events", events)...)
		said := endsAsOther(t, second, events)
		for _, want := range []string{name, id[:16], filepath.Join("p2pdiloco", name, "peer-1"), "invite", "start"} {
			if !strings.Contains(said, want) {
				t.Errorf("it does not name %s: %s", want, said)
			}
		}
	}
	leave(t, first)
}

// two is two runs of one name, each founded on a machine of its own beside a bootstrap node of its
// own.
type two struct {
	t       *testing.T
	name    string
	boots   []string
	ids     []string // of the runs
	addrs   []string // of the founders
	events  []string // their files
	trainer []string // its flags
}

func startTwo(t *testing.T) *two {
	t.Helper()
	w := &two{t: t, name: lab.RunName("two"), trainer: library(t)}
	for range 2 {
		boot := bootNode(t)
		_, events := startBare(t, t.TempDir(), append(w.trainer, "--run", w.name, "--bootstrap", boot, "--rounds",
			"100000", "--inner-steps", "2", "--outer", "sgd")...)
		w.addrs = append(w.addrs, clitest.Await(t, events, "peer.started").Addrs[0])
		w.ids = append(w.ids, clitest.Await(t, events, "run.founded").RunID)
		w.boots, w.events = append(w.boots, boot), append(w.events, events)
		w.announced(boot)
	}
	return w
}

// announced waits until a peer that starts from a bootstrap node finds the run there.
func (w *two) announced(boot string) {
	cfg := p2p.LAN()
	cfg.Bootstrap, cfg.MDNS = []string{boot}, false
	n, err := p2p.New(w.t.Context(), cfg)
	must(w.t, err)
	found, _ := n.Discover(w.t.Context(), p2p.NewPlaces(w.name))
	select {
	case <-found:
	case <-time.After(time.Minute):
		w.t.Error("nobody announces the run within a minute")
	}
	if err := n.Close(); err != nil {
		w.t.Error(err)
	}
}

// joins starts a peer that sees both runs, on a machine of its own. It looks around for as long as
// preset wan says: on a machine that is busy a search takes longer than the window of lan.
func (w *two) joins(home, run string) (p *clitest.Program, events string) {
	w.t.Helper()
	return startBare(w.t, home, append(w.trainer, "--run", run, "--bootstrap", w.boots[0], "--bootstrap", w.boots[1],
		"--preset", "wan")...)
}

// TestTwoRunsOfOneName: a newcomer that knows the name alone takes part in none of two runs that it
// sees. It lists both. The run's ID says which one is meant, and once it is a member it asks no
// more.
func TestTwoRunsOfOneName(t *testing.T) {
	t.Parallel()
	w := startTwo(t)
	for _, events := range w.events {
		applies(t, events, 16) // from then on a founder stays, though it is alone
	}
	lost, events := w.joins(t.TempDir(), w.name)
	said := endsAsOther(t, lost, events)
	for i, id := range w.ids {
		founder := w.addrs[i][strings.LastIndex(w.addrs[i], "/")+1:]
		if !strings.Contains(said, w.name+"@"+id[:16]) || !strings.Contains(said, "founded by "+founder) ||
			strings.Count(said, "members: 1") != 2 {
			t.Errorf("it does not list the run %s of %s: %s", id, founder, said)
		}
	}
	home, id := t.TempDir(), w.ids[1]
	p, events := w.joins(home, w.name+"@"+id[:16])
	if is := clitest.Await(t, events, "run.joined").RunID; is != id {
		t.Errorf("it is in the run %s, not %s", is, id)
	}
	p.Signal(t, syscall.SIGKILL)
	p.Ends(t)
	remove(t, events)
	again, events := w.joins(home, w.name)
	applies(t, events, 1)
	if is := runOf(t, home); is != id {
		t.Errorf("by its data directory it is in the run %s, not %s", is, id)
	}
	leave(t, again)
}

// runOf is the ID of the run that the peer below home is in.
func runOf(t *testing.T, home string, args ...string) string {
	t.Helper()
	status := clitest.Start(t, home, append([]string{"status", "--json"}, args...)...)
	status.Exits(t, cli.ExitOK)
	var s struct {
		RunID string `json:"run_id"`
	}
	status.Read(t, &s)
	return s.RunID
}
