package sources

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// target is flags of every kind, and the command line's values of them.
type target struct {
	*pflag.FlagSet
	rounds   uint64
	threads  int
	found    bool
	name     string
	wait     time.Duration
	preset   string
	listen   []string
	data     []string
	decimals string
	limit    float64
}

func newTarget(t *testing.T, args ...string) *target {
	t.Helper()
	f := &target{
		FlagSet: pflag.NewFlagSet("", pflag.ContinueOnError),
		preset:  "wan",
	}
	f.Uint64Var(&f.rounds, "rounds", 1, "")
	f.IntVar(&f.threads, "threads", 1, "")
	f.BoolVar(&f.found, "found", false, "")
	f.StringVar(&f.name, "run", "none", "")
	f.Float64Var(&f.limit, "limit", 0, "")
	f.StringVar(&f.decimals, "outer-lr", "", "")
	f.DurationVar(&f.wait, "wait", time.Second, "")
	f.Var(OneOf(&f.preset, "preset", []string{"lan", "wan"}), "preset", "")
	f.StringArrayVar(&f.listen, "listen", nil, "")
	f.StringArrayVar(&f.data, "data", nil, "")
	f.String(ConfigFlag, "", "")
	f.Bool("help", false, "")
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// known are the target's flags and another command's.
var known = Known{
	"rounds": true, "threads": true, "found": true, "run": true, "outer-lr": true, "wait": true, "preset": true,
	"listen": true, "limit": true,
	"data": true, ConfigFlag: true, "identity": true, "hidden-thing": true,
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrecedence gives --rounds in every combination of the places.
func TestPrecedence(t *testing.T) {
	for mask := range 1 << 3 {
		var args, environ []string
		text, want := "threads = 3\n", uint64(1)
		if mask&4 != 0 {
			text, want = text+"rounds = 5\n", 5
		}
		path := write(t, "run.toml", text)
		if mask&2 != 0 {
			environ, want = append(environ, "P2PDILOCO_ROUNDS=4"), 4
		}
		if mask&1 != 0 {
			args, want = append(args, "--rounds", "2"), 2
		}
		f := newTarget(t, append(args, "--config", path)...)
		if err := Fill(f.FlagSet, known, Environment(environ)); err != nil || f.rounds != want || f.threads != 3 {
			t.Errorf("flag, environment, file %03b: rounds %d, threads %d, %v; want %d", mask, f.rounds,
				f.threads, err, want)
		}
		if given := Rank(f.FlagSet, "rounds") > 0; given != (mask != 0) ||
			Rank(f.FlagSet, "rounds") < Rank(f.FlagSet, "threads") && given {
			t.Errorf("%03b: rank %d, of a flag from the file %d", mask, Rank(f.FlagSet, "rounds"),
				Rank(f.FlagSet, "threads"))
		}
	}
}

// TestKinds gives a flag of each kind in each place that can.
func TestKinds(t *testing.T) {
	toml := write(t, "run.toml", `
rounds = 7
threads = "8" # as a text, too
found = true
limit = 2.5e-1
run = "a run"
outer_lr = "0.70"
wait = "90s"
preset = "lan"
listen = ["/ip4/127.0.0.1/tcp/0", "/ip6/::1/tcp/0"]
data = "one, folder"
identity = "for another command"
`)
	environ := []string{
		"P2PDILOCO_ROUNDS=7", "P2PDILOCO_THREADS=8", "P2PDILOCO_FOUND=1", "P2PDILOCO_LIMIT=.25", "P2PDILOCO_RUN=a run",
		"P2PDILOCO_OUTER_LR=0.70", "P2PDILOCO_WAIT=90s",
		"P2PDILOCO_PRESET=lan", "P2PDILOCO_LISTEN= /ip4/127.0.0.1/tcp/0,\t/ip6/::1/tcp/0\n",
		"P2PDILOCO_DATA=one, folder ,", "P2PDILOCO_IDENTITY=",
		"P2PDILOCO_HELP=true", "p2pdiloco_rounds=9", "ROUNDS=9", "P2PDILOCO_OTHER=of somebody", "P2PDILOCO_",
	}
	for place, c := range map[string]struct {
		args []string
		from []Source
		data []string
	}{
		"TOML":        {[]string{"--config", toml}, nil, []string{"one, folder"}},
		"environment": {nil, []Source{Environment(environ)}, []string{"one", "folder"}},
		"variable":    {nil, []Source{Environment([]string{"P2PDILOCO_CONFIG=" + toml})}, []string{"one, folder"}},
	} {
		f := newTarget(t, c.args...)
		if err := Fill(f.FlagSet, known, c.from...); err != nil {
			t.Errorf("%s: %v", place, err)
		}
		if f.rounds != 7 || f.threads != 8 || !f.found || f.limit != 0.25 || f.name != "a run" ||
			f.decimals != "0.70" || f.wait != 90*time.Second || f.preset != "lan" ||
			!slices.Equal(f.listen, []string{"/ip4/127.0.0.1/tcp/0", "/ip6/::1/tcp/0"}) ||
			!slices.Equal(f.data, c.data) {
			t.Errorf("%s: %+v, data %q", place, f, f.data)
		}
		if f.Changed("help") {
			t.Errorf("%s: help was set", place)
		}
	}
}

func TestListsAreNotMixed(t *testing.T) {
	f := newTarget(t, "--listen", "/a", "--listen", "/b")
	if err := Fill(f.FlagSet, known, Environment([]string{"P2PDILOCO_LISTEN=/c"})); err != nil ||
		!slices.Equal(f.listen, []string{"/a", "/b"}) {
		t.Errorf("listen %q, %v", f.listen, err)
	}
}

// TestFaults has each error name its place.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"P2PDILOCO_ROUNDS=abc":  "P2PDILOCO_ROUNDS=abc: allowed: a whole number",
		"P2PDILOCO_FOUND=maybe": "P2PDILOCO_FOUND=maybe: allowed: true or false",
		"P2PDILOCO_WAIT=10":     "P2PDILOCO_WAIT=10: allowed: a duration like",
		"P2PDILOCO_LIMIT=much":  "P2PDILOCO_LIMIT=much: allowed: a number",
		"P2PDILOCO_PRESET=moon": "P2PDILOCO_PRESET=moon: allowed: lan, wan",

		"P2PDILOCO_CONFIG=/nonexistent.toml": "P2PDILOCO_CONFIG=/nonexistent.toml: no such file",
	} {
		checkFault(t, "", "", text, want)
	}
	for text, want := range map[string]string{
		"rounds = 3.0\n":      "PATH: rounds = 3.0: allowed: a whole number",
		"rounds = -1\n":       "PATH: rounds = -1: allowed: a whole number, 0 or above",
		"# no\n\nrouns = 3\n": "PATH, line 3: rouns is no setting: p2pdiloco join --help-all lists them",
		"outer-lr = \"3\"\n":  "PATH, line 1: outer-lr is no setting: ",
		"Rounds = 3\n":        "PATH, line 1: Rounds is no setting: ",
		"name = \"x\"\n":      "PATH, line 1: name is no setting: ",
		"codec = \"f32\"\n": "PATH, line 1: codec is no setting: p2pdiloco join --help-all lists them; more of a " +
			"run's own goes into the --spec file",
		"wibblewobble = 3\n":             "wibblewobble is no setting: p2pdiloco join --help-all lists them",
		"run = \"x\"\n[rounds]\nn = 3\n": "PATH, line 2: rounds: settings are flat",
		"rounds.n = 3\n":                 "PATH, line 1: rounds: settings are flat",
		"outer_lr = 0.7\n":               "PATH: outer_lr = 0.7: write decimals in quotes",
		"run = 2026-11-20\n":             "PATH, line 1: run: allowed: a text in quotes",
		"rounds = [1, 2]\n":              "PATH: rounds = 1, 2: allowed: one value, not a list",
		"listen = [[1]]\n":               "PATH, line 1: listen: a list in a list",
		"config = \"g.toml\"\n":          "PATH, line 1: config: a config file cannot name another one",
		"run = \"x\"\nrounds: 3\n":       "--config PATH: toml: line 2",
		"rounds = 3\nrounds = 4\n":       "--config PATH: toml: line 2",
		"rounds = \"abc\"\nfound = 3\n": "PATH: rounds = abc: allowed: a whole number\n" +
			"PATH: found = 3: allowed: true or false",
		strings.Repeat("#", maxFile+1):          "that is no config file",
		"run = " + strings.Repeat("[\n", 1000):  "--config PATH: tables or lists in each other",
		strings.Repeat("a.", 30000) + "b = 1\n": "--config PATH: tables or lists in each other",
	} {
		checkFault(t, "f.toml", text, "", want)
	}
	const environ = "P2PDILOCO_ROUNDS=abc"
	checkFault(t, "f.toml", "=", environ, "--config PATH: toml\n"+environ+": allowed")
	checkFault(t, "f.toml", "rouns = 3\n", environ, environ+": allowed\nrouns is no setting")
}

// checkFault expects faults of a file and of the environment, one a line, and all said at once.
// PATH stands for the file.
func checkFault(t *testing.T, file, text, environ, want string) {
	t.Helper()
	var args []string
	path := ""
	if file != "" {
		path = write(t, file, text)
		args = []string{"--config", path}
	}
	err := Fill(newTarget(t, args...).FlagSet, known, Environment([]string{environ}))
	lines := strings.Split(strings.ReplaceAll(want, "PATH", path), "\n")
	for _, line := range lines {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%.50q, %s: %v\nwithout %q", text, environ, err, line)
		}
	}
	if err != nil && (len(err.Error()) > 1000 || strings.Count(err.Error(), "\n") >= len(lines)) {
		t.Errorf("%d faults, and the error is\n%v", len(lines), err)
	}
}

func TestExplain(t *testing.T) {
	path := write(t, "run.toml", "threads = 3\n")
	f := newTarget(t, "--config", path, "--run", "x")
	if err := Fill(f.FlagSet, known, Environment([]string{"P2PDILOCO_ROUNDS=2"})); err != nil {
		t.Fatal(err)
	}
	other := errors.New("something else")
	err := Explain(f.FlagSet, errors.Join(&Fault{"rounds", "2", "odd"},
		errors.Join(&Fault{"threads", "3", "many"}, other), &Fault{"run", "", "short"},
		fmt.Errorf("wrapped: %w", &Fault{"run", "x", "long"}), &Fault{"unheard-of", "3", "why"}))
	want := "P2PDILOCO_ROUNDS=2: odd\n" + path +
		": threads = 3: many\nsomething else\n--run \"\": short\nwrapped: --run x: long\n--unheard-of 3: why"
	if err.Error() != want || !errors.Is(err, other) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if Explain(f.FlagSet, nil) != nil {
		t.Error("an error of nothing")
	}
}

func TestClean(t *testing.T) {
	environ := []string{
		"PATH=/bin", "P2PDILOCO_ROUNDS=2", "P2PDILOCO_TEST_X=1", "P2PDILOCO_ROUDNS=3",
		"P2PDILOCO_SERVICE_HOST=10.0.0.1", "P2PDILOCO_TEST_RUN=1", "P2PDILOCO_HIDDEN_THINGS=", "P2PDILOCO_TEST=nightly",
		"P2PDILOCO_TESTS=1",
	}
	if got := Clean(environ); !slices.Equal(got, []string{
		"PATH=/bin", "P2PDILOCO_TEST_X=1", "P2PDILOCO_TEST_RUN=1", "P2PDILOCO_TEST=nightly",
	}) || len(environ) != 9 || environ[1] != "P2PDILOCO_ROUNDS=2" {
		t.Errorf("cleaned to %q, left %q", got, environ)
	}
}

// checkParsed holds what any text was read as against what settings can be.
func checkParsed(t *testing.T, values map[string]Entry, text []byte) {
	lines := strings.Count(string(text), "\n") + 1
	for key, v := range values {
		if v.Line < 1 || v.Line > lines {
			t.Errorf("%q stands in line %d of %d", key, v.Line, lines)
		}
		if v.Key != key {
			t.Errorf("%q is %+v", key, v)
		}
	}
	f := newTarget(t)
	s := Source{name: "file", values: values}
	if err := Fill(f.FlagSet, known, s); err == nil {
		for key := range values {
			if !known.has(key) {
				t.Errorf("%q was accepted", key)
			}
		}
	}
	if f.preset != "lan" && f.preset != "wan" {
		t.Errorf("preset %q", f.preset)
	}
}

func FuzzTOML(f *testing.F) {
	for _, s := range []string{
		"rounds = 7\n", "listen = [\"a\", \"b\"]\n[x]\ny.z = 1", "found = true # x",
		"a = [[1, {b = 2}]]", "run = '''\nx\n'''", "run = 1979-05-27", "\"\" = 1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if values, err := parseTOML(text); err == nil {
			checkParsed(t, values, text)
		}
	})
}

// Paths in the environment and in files begin with ~ as they do in a shell, that of the file, too.
func TestHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, "c.toml"), []byte(`data_dir = "~/d"`), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.String(ConfigFlag, "", "")
	dir, init := fs.String("data-dir", "", ""), fs.String("init", "", "")
	environ := Environment([]string{"P2PDILOCO_CONFIG=~/c.toml", "P2PDILOCO_INIT=~/m"})
	err := Fill(fs, Known{ConfigFlag: true, "data-dir": true, "init": true}, environ)
	if err != nil || *dir != home+"/d" || *init != home+"/m" {
		t.Errorf("%s, %s: %v", *dir, *init, err)
	}
}
