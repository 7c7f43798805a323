package peer

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

const sample = `# a run
name = "books"
rounds = 200
outer_lr = "0.7"
discount = [1000, 500]
term_cap = "90m"
`

func TestReadSpec(t *testing.T) {
	got, err := readSpec(write(t, "run.toml", sample))
	want := p2pdiloco.Spec{
		Name: "books", Rounds: 200, OuterLR: "0.7", Discount: []uint64{1000, 500}, TermCap: 90 * time.Minute,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := readSpec(filepath.Join(t.TempDir(), "none.toml")); err == nil {
		t.Error("no error for a missing file")
	}
}

func TestWrongSpecFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"name = \"x\"\n\nround = 3\n", "line 3: unknown key round: allowed: name, nonce"},
		"unknown table":    {"name = \"x\"\n[outer_optimizer]\nlr = 3\n", "line 2: unknown key outer_optimizer"},
		"wrong type":       {"name = \"x\"\nrounds = \"many\"\n", "line 2: rounds = many: allowed: a whole number"},
		"bare decimal":     {"outer_lr = 0.7\n", "in quotes"},
		"negative":         {"rounds = -1\nseed = -1\n", "line 2: seed is negative"},
		"empty list":       {"discount = []\n", "line 1: discount is given, but empty or 0"},
		"list of nothing":  {"discount = [\"\"]\n", "line 1: discount is given, but empty or 0"},
		"negative in list": {"discount = [1000, -1]\n", "line 1: discount is negative"},
		"zero":             {"# none\nrounds = 0\n", "line 2: rounds is given, but empty or 0"},
		"empty":            {"aggregator = \"\"\n", "line 1: aggregator is given, but empty or 0"},
		"a list":           {"rounds = [3]\n", "line 1: rounds = 3: allowed: a whole number"},
		"no list":          {"discount = 1000\n", "line 1: discount = 1000: allowed: a list of whole"},
		"bare duration":    {"term_cap = 90\n", "line 1: term_cap = 90: allowed: a duration in quotes"},
		"no duration":      {"term_cap = \"long\"\n", "line 1: term_cap = long: allowed: a duration"},
		"decimal":          {"rounds = 3.0\n", "line 1: rounds = 3.0: allowed: a whole number"},
		"a number as text": {"rounds = \"3\"\n", "line 1: rounds = 3: allowed: a whole number"},
		"mixed list":       {"discount = [1000, \"x\"]\n", "line 1: discount = 1000, x: allowed: a list"},
		"not TOML":         {"rounds: 3\n", "line 1"},
		"twice":            {"rounds = 3\nrounds = 4\n", "line 2"},
		"too large":        {strings.Repeat("#", maxSpecFile+1), "that is no config file"},
		"layout not there": {"layout = []\n", "line 1: unknown key layout"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "run.toml", c.text)
			_, err := readSpec(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %s and %q in it", err, path, c.want)
			}
		})
	}
}

func FuzzReadSpec(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("[a]\nb.c = 1\n"))
	f.Add([]byte("Rounds = 3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "run.toml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		spec, err := readSpec(path)
		if err != nil {
			return
		}
		if len(spec.Layout) != 0 {
			t.Error("a file set the layout")
		}
		for field, v := range spec.Fields() {
			if v == "" {
				t.Errorf("%s is empty", field)
			}
		}
	})
}
