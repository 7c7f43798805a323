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
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// A peer says on stderr what it does from its start to its end: whom it looks for, a line a slot
// with what that took, and where the model is. One that is told to be quiet prints nothing.
func TestLines(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	name, data := lab.RunName("test"), smallData(t)
	join := func(dir string, more ...string) *clitest.Program {
		return clitest.Start(t, home, slices.Concat([]string{
			"join", "--run", name, "--preset", "lan", "--data", data, "--rounds", "3", "--inner-steps", "4",
			"--start-peers", "2", "--data-dir", filepath.Join(home, dir),
		}, more, tiny, onLoopback)...)
	}
	p, quiet := join("one"), join("other", "--quiet")
	if said := quiet.Exits(t, cli.ExitOK); said != "" {
		t.Errorf("a quiet peer says %q", said)
	}
	said := p.Exits(t, cli.ExitOK)
	if !regexp.MustCompile(`(?m)^slot \d/3 loss \d\.\d+, \d+ steps in [\d.]+ s, sync [\d.]+ s \(\d+%\), 2 members, ` +
		`[\d.]+ [kM]B \(data-parallel [\d.]+ [kM]B\)`).MatchString(said) {
		t.Error("no line says what a slot took")
	}
	at := 0
	for _, want := range []string{
		"run " + name + ": this peer starts\n", "looking for peers that know the run", "slot ", "the model is saved",
		"p2pdiloco export --data-dir " + filepath.Join(home, "one"), "the run has ended at slot 3",
	} {
		i := strings.Index(said[at:], want)
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

// printing has what a program prints on stderr go to a file, and returns what is there so far.
func printing(t *testing.T, p *clitest.Program) (said func() string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "said"))
	must(t, err)
	t.Cleanup(func() { _ = out.Close() })
	p.Stderr = out
	return func() string {
		text, _ := os.ReadFile(out.Name())
		return string(text)
	}
}

// Whoever mistypes the name of a host learns what the resolver says of it.
func TestNamesThatDoNotResolve(t *testing.T) {
	t.Parallel()
	const host = "no-such-host.invalid"
	p := clitest.New(t, t.TempDir(), append([]string{
		"join", "--run", lab.RunName("test"), "--preset", "lan", "--trainer", "none", "--log-level", "error",
		"--bootstrap", "/dns4/" + host + "/tcp/4001/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF",
	}, onLoopback...)...)
	said := printing(t, p)
	p.Begin(t)
	clitest.Until(t, "a line with the words of the resolver", func() bool {
		return strings.Contains(said(), "lookup "+host)
	})
	p.Signal(t, os.Interrupt)
	p.Ends(t)
}
