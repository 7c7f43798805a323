package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// A peer says on stderr what it does from its start to its end: whom it looks for, a line a slot
// with what that took, and where the model is.
func TestLines(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	name, data := swarm.RunName("test"), smallData(t)
	join := func(dir string) *clitest.Program {
		return clitest.Start(t, home, slices.Concat([]string{
			"join", "--run", name, "--preset", "lan", "--data", data, "--rounds", "3", "--inner-steps", "4",
			"--start-peers", "2", "--data-dir", filepath.Join(home, dir),
		}, tiny, onLoopback)...)
	}
	p, other := join("one"), join("other")
	if code := max(p.Ends(t), other.Ends(t)); code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	if !regexp.MustCompile(`(?m)^slot \d/3 loss \d\.\d+, \d+ steps in [\d.]+ s, sync [\d.]+ s \(\d+%\), 2 members, ` +
		`[\d.]+ [kM]B \(data-parallel [\d.]+ [kM]B\)`).Match(p.Err.Bytes()) {
		t.Error("no line says what a slot took")
	}
	at := 0
	for _, want := range []string{
		"run " + name + ": this peer starts\n", "looking for peers that know the run", "slot ", "the model is saved",
		"p2pdiloco export --data-dir " + filepath.Join(home, "one"), "the run has ended at slot 3",
	} {
		i := strings.Index(p.Err.String()[at:], want)
		if i < 0 {
			t.Errorf("%q is missing, or comes too early", want)
			continue
		}
		at += i
	}
	if p.Out.Len() > 0 {
		t.Errorf("on stdout: %q", &p.Out)
	}
}

func TestAQuietPeerPrintsNothing(t *testing.T) {
	t.Parallel()
	p := clitest.Start(t, t.TempDir(), slices.Concat([]string{
		"join", "--run", swarm.RunName("test"), "--preset", "lan", "--data", smallData(t), "--rounds", "1", "--quiet",
		"--found", "--linger", "1s",
	}, tiny, onLoopback)...)
	if code := p.Ends(t); code != cli.ExitOK || p.Out.Len()+p.Err.Len() > 0 {
		t.Errorf("exit %d", code)
	}
}

// Whoever mistypes the name of a host learns what the resolver says of it.
func TestNamesThatDoNotResolve(t *testing.T) {
	t.Parallel()
	const host = "no-such-host.invalid"
	p := clitest.New(t, t.TempDir(), append([]string{
		"join", "--run", swarm.RunName("test"), "--preset", "lan", "--data", smallData(t), "--log-level", "error",
		"--bootstrap", "/dns4/" + host + "/tcp/4001/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF",
	}, tiny...)...)
	said := filepath.Join(t.TempDir(), "said")
	out, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.Stderr = out
	p.Begin(t)
	clitest.Until(t, "a line with the words of the resolver", func() bool {
		text, _ := os.ReadFile(said)
		return strings.Contains(string(text), "lookup "+host)
	})
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.Ends(t)
}
