package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// smallData is a folder with enough text for the built-in model, and little enough to be read at
// once.
func smallData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.Repeat("the quick brown fox jumps over the lazy dog, and the five boxing wizards jump quickly\n",
		400)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		write(t, filepath.Join(dir, name), name+"\n"+text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func remove(t *testing.T, path string) {
	t.Helper()
	must(t, os.Remove(path))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// onLoopback are the flags that keep a test off every other network.
var onLoopback = []string{"--listen", "/ip4/127.0.0.1/tcp/0"}

// tiny are the flags of a peer that takes next to nothing of the processor: a model that is trained
// at once, and a rest after each round.
var tiny = []string{"--model", "layers=1,width=16,heads=2,context=8,batch=2", "--pause", "50ms"}

// startPeer starts a peer on this machine, which writes events to the file that is named.
func startPeer(t *testing.T, home string, args ...string) (p *clitest.Program, events string) {
	t.Helper()
	p, events = newPeer(t, home, args...)
	p.Begin(t)
	return p, events
}

// newPeer prepares one.
func newPeer(t *testing.T, home string, args ...string) (p *clitest.Program, events string) {
	t.Helper()
	return newBare(t, home, slices.Concat([]string{"--data", smallData(t), "--json"}, args, tiny)...)
}

// library are the flags of a trainer that takes no time to measure the model: a shared library that
// rests 50 ms after each step.
func library(t *testing.T) []string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.json")
	write(t, config, `{"size": 300, "pause_ms": 50}`)
	return []string{"--trainer", trainerLibrary(t, "bowl"), "--trainer-config", config, "--json"}
}

// startBare starts one without what the built-in trainer needs.
func startBare(t *testing.T, home string, args ...string) (p *clitest.Program, events string) {
	t.Helper()
	p, events = newBare(t, home, args...)
	p.Begin(t)
	return p, events
}

func newBare(t *testing.T, home string, args ...string) (p *clitest.Program, events string) {
	t.Helper()
	events = filepath.Join(home, "events")
	all := []string{"join", "--preset", "lan", "--events", events}
	if !slices.Contains(args, "--listen") {
		all = append(all, onLoopback...)
	}
	return clitest.New(t, home, append(all, args...)...), events
}

func leave(t *testing.T, peers ...*clitest.Program) {
	t.Helper()
	for _, p := range peers {
		p.Signal(t, os.Interrupt)
		p.Exits(t, cli.ExitOK)
	}
}

func applies(t *testing.T, events string, slot uint64) {
	t.Helper()
	clitest.AwaitEvent(t, events, "slots", func(e eventlog.Line) bool {
		return e.Event == "slot.applied" && e.Slot >= slot
	})
}

// lines are the events in a file.
func lines(t *testing.T, path string) (all []eventlog.Line) {
	t.Helper()
	f := eventlog.Follow(path)
	defer f.Close()
	err := f.Next(func(b []byte) {
		e, err := eventlog.Parse(b)
		if err != nil {
			t.Error(err)
		}
		all = append(all, e)
	})
	must(t, err)
	return all
}

// answers runs a command, which must end with a status and say what is wanted, and returns what it
// says.
func answers(t *testing.T, home string, code int, want string, args ...string) string {
	t.Helper()
	return clitest.Start(t, home, args...).Exits(t, code, want)
}

// must fails where something did.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
