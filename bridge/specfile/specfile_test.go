package specfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

const sample = `# a run
name = "books"
rounds = 200
outer_lr = "0.7"
discount = [1000, 500]
`

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	want := p2pdiloco.Spec{Name: "books", Rounds: 200, OuterLR: "0.7", Discount: []uint64{1000, 500}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.toml")); err == nil {
		t.Error("no error for a missing file")
	}
}

func TestWrongFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"name = \"x\"\n\nround = 3\n", "line 3: unknown key round: allowed: name, nonce"},
		"unknown table":    {"name = \"x\"\n[outer_optimizer]\nlr = 3\n", "line 2: unknown key outer_optimizer"},
		"wrong type":       {"name = \"x\"\nrounds = \"many\"\n", "line 2 (last key \"rounds\")"},
		"bare decimal":     {"outer_lr = 0.7\n", "in quotes"},
		"negative":         {"rounds = -1\nseed = -1\n", "line 2: seed is negative"},
		"negative in list": {"discount = [1000, -1]\n", "line 1: discount is negative"},
		"zero":             {"# none\nrounds = 0\n", "line 2: rounds is given, but empty or 0"},
		"empty":            {"aggregator = \"\"\n", "line 1: aggregator is given, but empty or 0"},
		"not TOML":         {"rounds: 3\n", "line 1"},
		"twice":            {"rounds = 3\nrounds = 4\n", "line 2"},
		"too large":        {strings.Repeat("#", maxFile+1), "no run spec"},
		"layout not there": {"layout = []\n", "line 1: unknown key layout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestReadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(path, []byte("foo = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want the file's path in it", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("[a]\nb.c = 1\n"))
	f.Add([]byte("Rounds = 3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := Parse(text)
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
