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
	f.Var(Addresses(&f.listen), "listen", "")
	f.Var(Paths(&f.data), "data", "")
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
	"data": true, ConfigFlag: true, "identity": true, "hidden-thing": false,
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
	js := write(t, "run.JSON", `{"rounds": 7, "threads": "8", "found": true, "limit": 0.25, "run": "a run",
		"outer_lr": 0.70, "wait": "90s", "preset": "lan",
		"listen": ["/ip4/127.0.0.1/tcp/0", "/ip6/::1/tcp/0"], "data": "one, folder", "identity": null, "config": null}`)
	environ := []string{
		"P2PDILOCO_ROUNDS=7", "P2PDILOCO_THREADS=8", "P2PDILOCO_FOUND=1", "P2PDILOCO_LIMIT=.25", "P2PDILOCO_RUN=a run",
		"P2PDILOCO_OUTER_LR=0.70", "P2PDILOCO_WAIT=90s",
		"P2PDILOCO_PRESET=lan", "P2PDILOCO_LISTEN= /ip4/127.0.0.1/tcp/0,\t/ip6/::1/tcp/0\n",
		"P2PDILOCO_DATA=one\n folder \n,", "P2PDILOCO_IDENTITY=",
		"P2PDILOCO_HELP=true", "p2pdiloco_rounds=9", "ROUNDS=9", "P2PDILOCO_OTHER=of somebody", "P2PDILOCO_",
	}
	for place, c := range map[string]struct {
		args []string
		from []Source
		data []string
	}{
		"TOML":        {[]string{"--config", toml}, nil, []string{"one, folder"}},
		"JSON":        {[]string{"--config", js}, nil, []string{"one, folder"}},
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

// TestFaults has each error name its place, and all be said at once.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		environ    string
		want       []string // PATH stands for the file
	}{
		"environment": {
			environ: "P2PDILOCO_ROUNDS=abc",
			want:    []string{"P2PDILOCO_ROUNDS=abc: allowed: a whole number"},
		},
		"bool": {
			environ: "P2PDILOCO_FOUND=maybe",
			want:    []string{"P2PDILOCO_FOUND=maybe: allowed: true or false"},
		},
		"duration":     {environ: "P2PDILOCO_WAIT=10", want: []string{"P2PDILOCO_WAIT=10: allowed: a duration like"}},
		"number":       {environ: "P2PDILOCO_LIMIT=much", want: []string{"P2PDILOCO_LIMIT=much: allowed: a number"}},
		"whole number": {"f.toml", "rounds = 3.0\n", "", []string{"PATH: rounds = 3.0: allowed: a whole number"}},
		"choice": {
			environ: "P2PDILOCO_PRESET=moon",
			want:    []string{"P2PDILOCO_PRESET=moon: allowed: lan, wan"},
		},
		"no file": {
			environ: "P2PDILOCO_CONFIG=/nonexistent.toml",
			want:    []string{"P2PDILOCO_CONFIG=/nonexistent.toml: no such file"},
		},
		"value": {
			"f.toml", "rounds = \"abc\"\nfound = 3\n", "",
			[]string{"PATH: rounds = abc: allowed: a whole number", "PATH: found = 3: allowed: true or false"},
		},
		"negative": {
			"f.toml", "rounds = -1\n", "",
			[]string{"PATH: rounds = -1: allowed: a whole number, 0 or above"},
		},
		"unknown": {
			"f.toml", "# none\n\nrouns = 3\n", "",
			[]string{"PATH, line 3: rouns is no setting: did you mean rounds?"},
		},
		"dash": {
			"f.toml", "outer-lr = \"3\"\n", "",
			[]string{"PATH, line 1: outer-lr is no setting: did you mean outer_lr?"},
		},
		"capitals": {
			"f.toml", "Rounds = 3\n", "",
			[]string{"PATH, line 1: Rounds is no setting: did you mean rounds?"},
		},
		"as in a spec": {
			"f.toml", "name = \"x\"\n", "",
			[]string{"PATH, line 1: name is no setting: did you mean run?"},
		},
		"of a spec": {
			"f.toml", "codec = \"f32\"\n", "",
			[]string{"PATH, line 1: codec is no setting: p2pdiloco join --help lists them; more of a run's own goes " +
				"into the --spec file"},
		},
		"nothing near": {
			"f.toml", "wibblewobble = 3\n", "",
			[]string{"wibblewobble is no setting: p2pdiloco join --help lists them"},
		},
		"table": {
			"f.toml", "run = \"x\"\n[rounds]\nn = 3\n", "",
			[]string{"PATH, line 2: rounds: settings are flat"},
		},
		"dotted": {"f.toml", "rounds.n = 3\n", "", []string{"PATH, line 1: rounds: settings are flat"}},
		"decimal": {
			"f.toml", "outer_lr = 0.7\n", "",
			[]string{"PATH: outer_lr = 0.7: write decimals in quotes"},
		},
		"date": {
			"f.toml", "run = 2026-11-20\n", "",
			[]string{"PATH, line 1: run: allowed: a text in quotes"},
		},
		"list": {
			"f.toml", "rounds = [1, 2]\n", "",
			[]string{"PATH: rounds = 1, 2: allowed: one value, not a list"},
		},
		"list of lists": {"f.toml", "listen = [[1]]\n", "", []string{"PATH, line 1: listen: a list in a list"}},
		"itself": {
			"f.toml", "config = \"g.toml\"\n", "",
			[]string{"PATH, line 1: config: a config file cannot name another one"},
		},
		"syntax": {"f.toml", "run = \"x\"\nrounds: 3\n", "", []string{"--config PATH: toml: line 2"}},
		"twice":  {"f.toml", "rounds = 3\nrounds = 4\n", "", []string{"--config PATH: toml: line 2"}},
		"deep": {
			"f.toml", "run = " + strings.Repeat("[\n", 1000), "",
			[]string{"--config PATH: tables or lists in each other"},
		},
		"dots": {
			"f.toml", strings.Repeat("a.", 30000) + "b = 1\n", "",
			[]string{"--config PATH: tables or lists in each other"},
		},
		"large":      {"f.toml", strings.Repeat("#", maxFile+1), "", []string{"that is no config file"}},
		"JSON value": {"f.json", `{"rounds": 1e3}`, "", []string{"PATH: rounds = 1e3: allowed: a whole number"}},
		"JSON unknown": {
			"f.json", "{\n\"run\": \"x\",\n\"rouns\": null}", "",
			[]string{"PATH, line 3: rouns is no setting: did you mean rounds?"},
		},
		"JSON object": {"f.json", "{\n\"run\": {}}", "", []string{"PATH, line 2: run: settings are flat"}},
		"JSON null":   {"f.json", `{"listen": [null]}`, "", []string{"PATH, line 1: listen: null in a list"}},
		"JSON twice": {
			"f.json", "{\"rounds\": 3,\n\"rounds\": 4}", "",
			[]string{"--config PATH: line 2: rounds is given twice"},
		},
		"JSON list":      {"f.json", `[]`, "", []string{"--config PATH: line 1: not a JSON object"}},
		"JSON empty":     {"f.json", ``, "", []string{"--config PATH: line 1: not a JSON object"}},
		"JSON cut":       {"f.json", "{\"rounds\": 3,\n", "", []string{"--config PATH: line 1: the object has no end"}},
		"JSON cut value": {"f.json", `{"rounds": [3`, "", []string{"rounds: the object has no end"}},
		"JSON rest":      {"f.json", `{} {}`, "", []string{"line 1: something follows the object"}},
		"JSON syntax":    {"f.json", "{\n\"rounds\" 3}", "", []string{"--config PATH: line 2: "}},
		"odd value":      {"f.json", `{"rounds": "a\u0000\nb"}`, "", []string{`PATH: rounds = "a\x00\nb": allowed`}},
		"odd key":        {"f.json", `{"a\nb": 1}`, "", []string{`PATH, line 1: "a\nb" is no setting`}},
		"long value":     {"f.json", `{"rounds": "` + strings.Repeat("ä", 5000) + `"}`, "", []string{"ä…: allowed"}},
		"file and rest": {
			"f.toml", "=", "P2PDILOCO_ROUNDS=abc",
			[]string{"--config PATH: toml", "P2PDILOCO_ROUNDS=abc: allowed"},
		},
		"both": {
			"f.toml", "rouns = 3\n", "P2PDILOCO_ROUNDS=abc",
			[]string{"P2PDILOCO_ROUNDS=abc: allowed", "rouns is no setting"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			path := ""
			if c.file != "" {
				path = write(t, c.file, c.text)
				args = []string{"--config", path}
			}
			err := Fill(newTarget(t, args...).FlagSet, known, Environment([]string{c.environ}))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if want = strings.ReplaceAll(want, "PATH", path); !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwithout %q", err, want)
				}
			}
			if len(err.Error()) > 1000 || strings.Count(err.Error(), "\n") >= len(c.want) {
				t.Errorf("%d faults, and the error is\n%v", len(c.want), err)
			}
		})
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

func TestCleanAndMistyped(t *testing.T) {
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
	if got := Mistyped(environ, known); len(got) != 1 ||
		got[0] != "P2PDILOCO_ROUDNS in the environment is no setting: did you mean P2PDILOCO_ROUNDS?" {
		t.Errorf("warnings %q", got)
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

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"rounds": 7}`, "{\n\"listen\": [\"a\", 1, true]}", `{"preset":"lan"}`,
		`{"a":{"b":[null]}}`, `{"rounds": 1e99, "found": null}`, `{"":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if values, err := parseJSON(text); err == nil {
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
