package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
)

func TestWrongCommandLines(t *testing.T) {
	spec := filepath.Join(t.TempDir(), "run.toml")
	must(t, os.WriteFile(spec, []byte("name = \"x\"\nouter = \"adagrad\"\nrounds = 5\n"), 0o600))
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"jion", "Did you mean this?\n\tjoin"},
		{"join", "which run? Give --run NAME"},
		{"join books", `or @FILE or - for one; not "books". A run's name stands after --run`},
		{"join @/nonexistent", "p2pdiloco: ticket: /nonexistent: there is no such file"},
		{"join @/dev/null", "p2pdiloco: ticket: /dev/null: this is no ticket"},
		{"join --ticket @/dev/null", "/dev/null: this is no ticket"},
		{"doctor @/dev/null", "/dev/null: this is no ticket"},
		{"join p2pdiloco1zmajgbdemvww6", "--ticket p2pdiloco1zmajgbdemv…: the ticket is cut off"},
		{"join --run x --access closed", "--access closed: allowed: open, private"},
		{"invite --ttl 0s", "--ttl 0s: allowed: 1s to 366d"},
		{"invite --ttl soon", "allowed: days or hours, like 7d or 12h"},
		{"invite --uses 2000", "--uses 2000: allowed: 1 to 1024"},
		{"invite me", "p2pdiloco: invite takes flags only"},
		{"top", "top: the output is no terminal: p2pdiloco status prints the same once"},
		{"dashboard me", "p2pdiloco: dashboard takes flags only"},
		{"join --run x --agregator mean", "unknown flag: --agregator"},
		{"join --run x --wibble", "unknown flag: --wibble"},
		{"join --run x --aggregator avg", "--aggregator avg: allowed: mean, trimmed_mean, median"},
		{"join --run x --outer adagrad", "--outer adagrad: allowed: sgd, nesterov, delayed_nesterov, adam"},
		{"join --run x --outer-lr fast", "--outer-lr fast: allowed: a decimal number"},
		{"join --run x --momentum 1", "--momentum 1: allowed:"},
		{"join --run x --clip maybe", "--clip maybe: allowed: on, off"},
		{"join --run x --trim-permille 500", "--trim-permille 500: allowed: 1 to 499"},
		{"join --run x --rounds many", "--rounds many: allowed: a whole number"},
		{"join --run x --rounds -1", "--rounds -1: allowed: a whole number"},
		{"join --run x --rounds 0", "--rounds 0: empty or 0: leave it out"},
		{"join --run= --rounds 2", `--run "": empty or 0`},
		{"join --run a/\tb", `--run "a/\tb": allowed:`},
		{"join --run x --preset moon", "allowed: lan, wan"},
		{
			"join --run x --trainer torch",
			"--trainer torch: allowed: builtin:gpt, attach, none, or the path of a shared library",
		},
		{
			"join --run x --trainer none --data /tmp",
			"--data /tmp: it is for a peer that trains with builtin:gpt, not for --trainer none",
		},
		{"join --run x --model depth=3", "allowed: layers=N, width=N"},
		{"join --run x --model layers=0", "optimizer=adamw|muon, with N of 1 or more"},
		{"join --run x --model width=100,heads=3", "--model width=100,heads=3: width 100 is not a multiple of 3 heads"},
		{"join --run x --threads -1", "--threads -1: at least 1"},
		{"join --run x --log-level loud", "allowed: debug, info, warn, error"},
		{"join --run x --api 0.0.0.0:80", "for this machine only"},
		{"join --run x --spec /nonexistent.toml", "no such file"},
		{"join --spec " + spec, spec + ": outer = adagrad: allowed: sgd, nesterov, delayed_nesterov, adam"},
		{"join --outer sgd --min-peers 0 --spec " + spec, "--min-peers 0: empty or 0"},
		{"demo --peers 0", "--peers 0: allowed: 1 to 64"},
		{"demo --rounds 0 --inner-steps 0", "--inner-steps 0: allowed: 1 and above"},
		{"demo --aggregator max", "allowed: mean, trimmed_mean, median"},
		{"demo --mode streaming --pace dylu", "--pace dylu: with fragments, and in mode streaming, only steps"},
		{"demo --pace deadline", "allowed: steps, dylu"},
		{"join --run x --mode streaming --pace dylu", "--pace dylu: with fragments, and in mode streaming, only steps"},
		{"status --api example.org:80", "for this machine only"},
		{"join --run x --on-quorum-loss panic", "allowed: continue, pause"},
		{"join --run x --pin 12ab", "allowed: the 64 hex digits"},
		{"recover now", "takes flags only"},
		{"doctor books", "this is no ticket"},
		{"doctor --bootstrap nonsense --data-dir /nonexistent", "nonsense"},
		{"join --run x --trainer none --init m.safetensors", "--init m.safetensors: it is for a peer that trains"},
		{"join --run x --keep-checkpoints 0", "at least 1"},
		{"export", "no file is named"},
		{"export --data-dir d", "--out MODEL.safetensors"},
		{"export --data-dir d --out m --slot last", "a slot's number, or latest"},
		{"bootstrap --log-level loud", "allowed: debug, info, warn, error"},
		{"report", "no file is named: give --out REPORT.html"},
	})
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	none, home := dir+"/none", t.TempDir()
	t.Setenv("HOME", home)
	clitest.Answers(t, newRoot, cli.ExitFailed, []clitest.Case{
		{"join --run x --events " + dir, "events file"},
		{"join --run x --api off --data-dir " + dir + " --data " + none, "--data " + none + ": file does not exist"},
		{"join --run x --api off --data-dir " + dir + " --data " + dir, "--data"},
		{"export --data-dir " + dir + " --out " + dir + "/m", "holds no run.spec"},
		{"export --data-dir " + dir + " --out " + dir, "replace it with --force\n"},
		{"export --data-dir=~/no --out=" + dir + "/m", home + "/no holds no run.spec"},
		{"export --data-dir " + dir + " --out " + none + "/m", "there is no folder " + none},
		{"join --run x --api off --data-dir " + dir + " --init " + none, "(--init " + none + "): open"},
		{
			"join --json --run x --fragments 4 --api off --data-dir " + dir + " --data " + none,
			"note: if no peer of the run is found, this one cannot found it: --fragments 4: mode sync has one fragment",
		},
		{"bootstrap --listen here", "give a multiaddr"},
		{"bootstrap --listen /ip4/127.0.0.1", ": give a multiaddr with a port, like /ip4/0.0.0.0/tcp/4001"},
		{"bootstrap --identity " + dir, "identity file"},
		{"demo --data " + none + " --keep-dir " + dir + "/kept", "--data " + none + ": file does not exist"},
		{"dashboard --data-dir " + dir, "no peer runs with the data directory " + dir + ": start it as before"},
		{"status --data-dir " + dir, "no peer runs with the data directory " + dir + ": start it as before"},
		{"report " + none + " --out " + dir + "/r.html", none + ": no such file"},
		{"report " + dir + " --out " + dir + "/r.html", dir + ": no slot has been measured there"},
	})
}

// What status says about a peer that is not running can be typed as it stands: the directory knows
// the run. It asked which run that is.
func TestTheAdviceToStartAPeerAgainWorks(t *testing.T) {
	dir := t.TempDir()
	if err := datadir.At(disk.OS, dir).SaveSpec(p2pdiloco.Spec{
		Name: "books", Rounds: 3, Layout: p2pdiloco.Layout{{Name: "w", Shape: []uint64{4}}},
	}.Settled()); err != nil {
		t.Fatal(err)
	}
	_, _, said := clitest.Line(newRoot(), "status", "--data-dir", dir)
	_, advice, _ := strings.Cut(said, "(p2pdiloco ")
	advice, _, _ = strings.Cut(advice, ")")
	clitest.Answers(t, newRoot, cli.ExitFailed, []clitest.Case{
		{advice + " --api off --data " + dir + "/none", "--data " + dir + "/none: file does not exist"},
		{"join --data-dir " + dir + " --api off --rounds 4 --trainer none", "rounds"},
	})
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"join --data-dir " + dir + "/new", "data directory " + dir + "/new has been in no run"},
	})
}

func TestHelp(t *testing.T) {
	clitest.Answers(t, newRoot, cli.ExitOK, []clitest.Case{
		{"", "p2pdiloco demo"},
		{"--help", "Available Commands"},
		{"join --help-all", "Examples:"},
		{"demo --help", "exit status is 0 only if"},
		{"bootstrap --help", "--addr-file"},
		{"status --help", "--json"},
		{"version", "protocol " + p2pdiloco.ProtocolVersion},
		{"--version", "p2pdiloco "},
	})
}

// In a terminal a command says what it has to say, and asks the terminal nothing: one that does not
// answer would make it wait, and what the user has typed already would be lost.
func TestNoCommandAsksTheTerminal(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	must(t, err)
	terminal := exec.CommandContext(t.Context(), "script", "-qec", exe+" --version", "/dev/null")
	terminal.Env = append(os.Environ(), clitest.AsProgram+"=1", "TERM=xterm", "CI=")
	said, err := terminal.CombinedOutput()
	if err != nil || !bytes.HasPrefix(said, []byte("p2pdiloco")) {
		t.Errorf("%v, %q", err, said)
	}
}
