package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// open makes a swarm whose program, echo, prints its arguments and ends.
func open(t *testing.T) *Swarm {
	t.Helper()
	echo, err := exec.LookPath("echo")
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewSwarm(Setting{Executable: echo}, Loopback{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestAPeerHasSeveralProcesses: each has a log and an output of its own.
func TestAPeerHasSeveralProcesses(t *testing.T) {
	c, dir := open(t), t.TempDir()
	p := c.NewPeer(1, dir, "peer-1")
	if _, ok := p.Report(); ok || p.Failure() != nil {
		t.Error("a peer without a process has an end")
	}
	for _, name := range []string{"peer-1", "peer-1.2"} {
		if err := c.Join(p, "books", []string{"here", "there"}, "--rounds", "3"); err != nil {
			t.Fatal(err)
		}
		<-p.Ended
		out, err := os.ReadFile(filepath.Join(dir, name+".out"))
		if text := string(out); err != nil || !strings.HasPrefix(text, "join --run books") ||
			!strings.HasSuffix(text, "--rounds 3 --bootstrap here --bootstrap there\n") {
			t.Errorf("%s printed %q, %v", name, text, err)
		}
	}
	if logs := c.Logs(); len(logs) != 2 || logs[1] != filepath.Join(dir, "peer-1.2.log") {
		t.Errorf("logs %q", logs)
	}
	if _, ok := p.Report(); ok {
		t.Error("what echo prints is a report")
	}
	if err := p.Failure(); err == nil || !strings.Contains(err.Error(), "peer-1 ended with exit status 0") {
		t.Error(err)
	}
	if c.NewPeer(2, dir, "peer-2").API == p.API {
		t.Error("two peers have one socket")
	}
}

func TestAPeerIsKnownByItsEvents(t *testing.T) {
	c, dir := open(t), t.TempDir()
	p := c.NewPeer(1, dir, "peer-1")
	text := `{"event":"peer.started","peer_id":"me","addrs":["here"]}` + "\nnonsense\n" + `{"event":"run.done"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "peer-1.events"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []string
	err := p.Read(func(e eventlog.Line) { seen = append(seen, e.Event) })
	if err != nil || strings.Join(seen, " ") != "peer.started run.done" || p.ID != "me" || len(p.Addrs) != 1 {
		t.Errorf("%q, %+v, %v", seen, p, err)
	}
	if _, _, err := p.Ask(t.Context()); err == nil {
		t.Error("a peer without a process gave its status")
	}
}

func TestTheGateOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate")
	for _, slot := range []uint64{0, 12} {
		if err := OpenGate(path, slot); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "12" {
		t.Errorf("%q, %v", text, err)
	}
}
