package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// line runs a command line in this process. It must be one that starts nothing.
func line(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = execute(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestWrongCommandLines(t *testing.T) {
	spec := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(spec, []byte("name = \"x\"\nouter = \"adagrad\"\nrounds = 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"jion", "Did you mean this?\n\tjoin"},
		{"join", "which run? Give --run NAME"},
		{"join books", `takes flags, or a ticket, which begins with p2pdiloco1; not "books"`},
		{"join p2pdiloco1aeajgbdemvww6", "--ticket p2pdiloco1aeajgbdemv…: the ticket is cut off"},
		{"join --run x --access closed", "--access closed: allowed: open, private"},
		{"join --run x --allow /nonexistent", "--allow /nonexistent: "},
		{"invite --ttl 0s", "--ttl 0s: allowed: 1s to 366d"},
		{"invite --ttl soon", "allowed: days or hours, like 7d or 12h"},
		{"invite --uses 2000", "--uses 2000: allowed: 1 to 1024"},
		{"invite me", "takes flags only"},
		{"join --run x --agregator mean", "did you mean --aggregator?"},
		{"join --run x --inner 3", "did you mean --inner-steps?"},
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
		{"join --run x --trainer torch", "--trainer torch: allowed: builtin:gpt, none, or the path of a shared library"},
		{"join --run x --trainer none --data /tmp", "--data /tmp: it is for a peer that trains with builtin:gpt, not for --trainer none"},
		{"join --run x --model depth=3", "allowed: layers=N, width=N"},
		{"join --run x --model width=100,heads=3", "--model width=100,heads=3: width 100 is not a multiple of 3 heads"},
		{"join --run x --threads 0", "--threads 0: at least 1"},
		{"join --run x --log-level loud", "allowed: debug, info, warn, error"},
		{"join --run x --api 0.0.0.0:80", "for this machine only"},
		{"join --run x --spec /nonexistent.toml", "no such file"},
		{"join --spec " + spec, spec + ": outer = adagrad: allowed: sgd, nesterov, delayed_nesterov, adam"},
		{"join --outer sgd --min-peers 0 --spec " + spec, "--min-peers 0: empty or 0"},
		{"demo --peers 0", "--peers 0: allowed: 1 to 64"},
		{"demo --rounds 0 --inner-steps 0", "--inner-steps 0: allowed: 1 and above"},
		{"demo --aggregator max", "allowed: mean, trimmed_mean, median"},
		{"demo --mode streaming --pace dylu", "--pace dylu: with fragments, and in mode streaming, only steps"},
		{"demo --mode async --round-time 3", "--round-time 3: only pace deadline has one"},
		{"demo --round-time 3", "--round-time 3: only pace deadline has one"},
		{"join --run x --mode streaming --pace dylu", "--pace dylu: with fragments, and in mode streaming, only steps"},
		{"chaos --peers 2 --slots 3 --faults kill", "--peers 2: allowed: 3 to 64"},
		{"chaos --slots 3 --faults kill", "--slots 3: allowed: 7 to"},
		{"chaos --seed 0 --faults kill", "--seed 0: allowed: 1 and above"},
		{"chaos --faults kill,murder", "--faults kill,murder: \"murder\" is none of kill,leader,"},
		{"status --api example.org:80", "for this machine only"},
		{"bench modes --peers 1 --seeds 0", "--peers 1: allowed: 2 to"},
		{"bench modes --quick --rounds 0", "--rounds 0: allowed: 1 to"},
		{"bench modes --modes sync,gossip", "--modes sync,gossip: allowed: each once of sync, delayed"},
		{"bench modes --netns --rate fast", "--rate fast: allowed: 1kbit to"},
		{"bench modes --rate 20mbit", "--rate 20mbit: it is of links that only --netns has"},
		{"bench modes --model width=5,heads=3", "--model width=5,heads=3: width 5 is not a multiple"},
		{"bench kernels --elements 9 --iters 0", "--elements 9: allowed: 1024 to"},
		{"bench moods", "takes flags only"},
		{"bench allreduce --peers 1 --iters 0", "--iters 0: allowed: 1 to"},
		{"bench allreduce --size 64", "--size 64: allowed: a whole number with KiB"},
		{"bench allreduce --size 1MiB --elements 7", "--size 1024KiB: give it or --elements"},
		{"bench allreduce --schedule star", "--schedule star: allowed: "},
		{"bench allreduce --codec int7", "--codec int7: allowed: "},
		{"bench allreduce --rate 1gbit", "--rate 1gbit: it is of links that only --netns has"},
		{"bench allreduce --against gloo", "--against gloo: allowed: mpi"},
		{"bench allreduce 4", "takes flags only"},
		{"bench nat --kinds public,moat --limit 1s", "--kinds moat: allowed: each once of public,full-cone"},
		{"bench nat --size 64KiB --preset moon", "--preset moon: allowed: lan, wan"},
		{"bench nat --write /nonexistent.md", "--write /nonexistent.md: open"},
		{"join --run x --on-quorum-loss panic", "allowed: continue, pause"},
		{"join --run x --pin 12ab", "allowed: the 64 hex digits"},
		{"recover now", "takes flags only"},
		{"doctor books", "this is no ticket"},
		{"doctor --bootstrap nonsense --data-dir /nonexistent", "nonsense"},
		{"join --run x --trainer none --init m.safetensors", "--init m.safetensors: it is for a peer that trains"},
		{"join --run x --keep-checkpoints 0", "at least 1"},
		{"export", "--data-dir DIR"},
		{"export --data-dir d", "--out MODEL.safetensors"},
		{"export --data-dir d --out m --slot last", "a slot's number, or latest"},
		{"bootstrap --log-level loud", "allowed: debug, info, warn, error"},
	} {
		code, stdout, stderr := line(strings.Split(c.args, " ")...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("p2pdiloco %s: exit %d, stdout %q, stderr %q; want %d and %q", c.args, code, stdout, stderr, exitUsage, c.want)
		}
	}
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"join --run x --events " + dir, "events file"},
		{"join --run x --api off --data-dir " + dir + " --data " + dir + "/none", "none: no such file"},
		{"join --run x --api off --data-dir " + dir + " --data " + dir, "--data"},
		{"export --data-dir " + dir + " --out " + dir + "/m", "holds no run.spec"},
		{"export --data-dir " + dir + " --out " + dir, "--force"},
		{"join --run x --api off --data-dir " + dir + " --init " + dir + "/none", "none: no such file"},
		{"bootstrap --listen here", "give a multiaddr"},
		{"bootstrap --identity " + dir, "identity file"},
		{"demo --data " + dir + "/none --keep-dir " + dir + "/kept", "none: no such file"},
		{"demo --events " + dir, "events file"},
	} {
		code, _, stderr := line(strings.Split(c.args, " ")...)
		if code != exitFailed || !strings.Contains(stderr, c.want) {
			t.Errorf("p2pdiloco %s: exit %d, stderr %q; want %d and %q", c.args, code, stderr, exitFailed, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "p2pdiloco demo"},
		{"--help", "Available Commands"},
		{"join --help", "Examples:"},
		{"demo --help", "exit status is 0 only if"},
		{"bootstrap --help", "--addr-file"},
		{"status --help", "--json"},
		{"bench", "Available Commands"},
		{"bench allreduce --help", "--against mpi"},
		{"bench nat --help", "touches nothing of the machine's own network"},
		{"bench modes --help", "goals are printed beside"},
		{"bench kernels --help", "a copy (memcpy) of as many bytes"},
		{"version", "protocol 1"},
		{"--version", "p2pdiloco "},
	} {
		code, stdout, stderr := line(strings.Fields(c.args)...)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, c.want) {
			t.Errorf("p2pdiloco %s: exit %d, stderr %q, stdout without %q:\n%s", c.args, code, stderr, c.want, stdout)
		}
	}
}
