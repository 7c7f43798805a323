//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// otherRun is the exit status of a peer that does not know which run is meant (docs).
const otherRun = 4

// bootNode starts a bootstrap node and returns its address.
func bootNode(t *testing.T) string {
	t.Helper()
	home, text := t.TempDir(), []byte{}
	file := filepath.Join(home, "addrs")
	_ = clitest.Start(t, home, append([]string{"bootstrap", "--addr-file", file}, onLoopback...)...)
	clitest.Until(t, "the address file", func() bool { text, _ = os.ReadFile(file); return len(text) > 0 })
	addr, _, _ := strings.Cut(string(text), "\n")
	return addr
}

// endsAsOther wants a peer to end with status 4 before it is a member of any run, and returns what
// it said.
func endsAsOther(t *testing.T, p *clitest.Program, events string) string {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	clitest.Until(t, "the end of a peer, or its run", func() bool {
		select {
		case err := <-ended:
			ended <- err
			return true
		default:
		}
		return exists(events) && slices.ContainsFunc(lines(t, events), func(e eventlog.Line) bool {
			return e.Event == "run.joined" || e.Event == "run.founded"
		})
	})
	select {
	case <-ended:
		if code := p.ProcessState.ExitCode(); code != otherRun {
			t.Errorf("exit %d, want %d: %s", code, otherRun, &p.Err)
		}
		return p.Err.String()
	default:
		_ = p.Process.Kill()
		<-ended
		t.Errorf("%v: it is a member of a run, where it cannot know which one is meant", p.Args[1:])
		return ""
	}
}

// TestNoSecondRunBesideAPrivateOne: on a machine with a peer of a private run, whose members do not
// answer those who know no more than its name, join founds no second run of that name. It says
// which run is here, and what to do.
func TestNoSecondRunBesideAPrivateOne(t *testing.T) {
	t.Parallel()
	home, data, name, boot := t.TempDir(), smallData(t), swarm.RunName("team"), bootNode(t)
	first, events := startPeer(t, home, data, "--run", name, "--bootstrap", boot, "--access", "private", "--rounds",
		"100000", "--inner-steps", "2", "--outer", "sgd")
	id := clitest.AwaitEvent(t, events, "the founding", clitest.Named("run.founded")).RunID
	applies(t, events, 1)
	for _, more := range [][]string{nil, {"--data-dir", filepath.Join(home, "named")}} {
		events := filepath.Join(t.TempDir(), "events")
		second := clitest.Start(t, home, slices.Concat([]string{
			"join", "--run", name, "--bootstrap", boot, "--preset", "lan", "--data", data, "--events", events,
		}, more, tiny, onLoopback)...)
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
// own, and the data that all train on.
type two struct {
	t          *testing.T
	name, data string
	boots      []string
	ids        []string // of the runs
	addrs      []string // of the founders
	homes      []string
	peers      []*clitest.Program
	events     []string // their files
	gate       string   // opens the slots to all peers
}

func startTwo(t *testing.T, slots uint64) *two {
	t.Helper()
	w := &two{t: t, name: swarm.RunName("two"), data: smallData(t), gate: filepath.Join(t.TempDir(), "gate")}
	w.open(slots)
	for range 2 {
		boot, home := bootNode(t), t.TempDir()
		p, events := startPeer(t, home, w.data, "--run", w.name, "--bootstrap", boot, "--rounds", "100000",
			"--inner-steps", "2", "--outer", "sgd", "--gate", w.gate)
		w.homes, w.peers = append(w.homes, home), append(w.peers, p)
		w.addrs = append(w.addrs, clitest.AwaitEvent(t, events, "a start", clitest.Named("peer.started")).Addrs[0])
		w.ids = append(w.ids, clitest.AwaitEvent(t, events, "a founding", clitest.Named("run.founded")).RunID)
		w.boots, w.events = append(w.boots, boot), append(w.events, events)
		w.announced(boot)
	}
	return w
}

// open lets all peers train up to a slot.
func (w *two) open(slot uint64) {
	w.t.Helper()
	if err := swarm.OpenGate(w.gate, slot); err != nil {
		w.t.Fatal(err)
	}
}

// announced waits until a peer that starts from a bootstrap node finds the run there.
func (w *two) announced(boot string) {
	cfg := p2p.LAN()
	cfg.Bootstrap, cfg.MDNS = []string{boot}, false
	n, err := p2p.New(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
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

// joins starts a peer that sees both runs, on a machine of its own.
func (w *two) joins(home, run string, more ...string) (p *clitest.Program, events string) {
	w.t.Helper()
	return startPeer(w.t, home, w.data, slices.Concat([]string{"--run", run}, more, []string{
		"--bootstrap", w.boots[0], "--bootstrap", w.boots[1], "--gate", w.gate,
	})...)
}

// TestTwoRunsOfOneName: a newcomer that knows the name alone takes part in none of two runs that it
// sees. It lists both. The member that it was given says which one is meant, or the run's ID does,
// and once it is a member it asks no more.
func TestTwoRunsOfOneName(t *testing.T) {
	t.Parallel()
	w := startTwo(t, 100000)
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
	for i, id := range w.ids {
		for what, args := range map[string][]string{
			"a member's address": {w.name, "--bootstrap", w.addrs[i]}, "the ID": {w.name + "@" + id[:16]},
		} {
			home := t.TempDir()
			p, events := w.joins(home, args[0], args[1:]...)
			clitest.AwaitEvent(t, events, "a join by "+what, clitest.Named("run.joined"))
			w.isIn(home, id, what)
			if err := p.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.Ends(t)
			if err := os.Remove(events); err != nil {
				t.Fatal(err)
			}
			again, events := w.joins(home, w.name)
			applies(t, events, 1)
			w.isIn(home, id, "its data directory")
			leave(t, again)
		}
	}
}

// TestAFounderThatIsAloneGivesItsRunUp: two peers that do not see each other have founded a run
// each. A third one that sees both takes one of the two, and the founder of the other one says that
// it gives that up, and follows. All three train together.
func TestAFounderThatIsAloneGivesItsRunUp(t *testing.T) {
	t.Parallel()
	w := startTwo(t, 2)
	for _, events := range w.events {
		applies(t, events, 2)
	}
	home := t.TempDir()
	third, events := w.joins(home, w.name)
	clitest.AwaitEvent(t, events, "a third peer's join", clitest.Named("run.joined"))
	kept := 0
	if runOf(t, home) == w.ids[1] {
		kept = 1
	}
	given := 1 - kept
	clitest.AwaitEvent(t, w.events[given], "the join of a founder", clitest.Named("run.joined"))
	w.open(4)
	for _, events := range append(w.events, events) {
		applies(t, events, 4)
	}
	for _, home := range append(w.homes, home) {
		w.isIn(home, w.ids[kept], "its founder, or another one")
	}
	leave(t, third, w.peers[0], w.peers[1])
	for i, p := range w.peers {
		if says := strings.Contains(p.Err.String(), w.ids[given][:16]+", which it founded"); says != (i == given) {
			t.Errorf("of the run %s the founder of %s says %s", w.ids[given], w.ids[i], &p.Err)
		}
	}
}

// isIn wants the peer below home in a run.
func (w *two) isIn(home, id, by string) {
	w.t.Helper()
	if is := runOf(w.t, home); is != id {
		w.t.Errorf("by %s it is in the run %s, not %s", by, is, id)
	}
}

// runOf is the ID of the run that the peer below home is in.
func runOf(t *testing.T, home string, args ...string) string {
	t.Helper()
	status := clitest.New(t, home, append([]string{"status", "--json"}, args...)...)
	if err := status.Run(); err != nil {
		t.Fatal(err, &status.Err)
	}
	var s struct {
		RunID string `json:"run_id"`
	}
	if err := json.Unmarshal(status.Out.Bytes(), &s); err != nil {
		t.Error(err)
	}
	return s.RunID
}
