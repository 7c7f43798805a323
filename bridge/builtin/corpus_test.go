package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes files below a new folder, name -> text.
func write(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

func open(t *testing.T, cfg CorpusConfig) *Corpus {
	t.Helper()
	c, err := OpenCorpus(t.Context(), cfg)
	must(t, err)
	return c
}

// manyFiles is n files of 100 bytes, each of one line that no other has.
func manyFiles(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		line := fmt.Sprintf("<file %04d>", i)
		files[fmt.Sprintf("dir%d/f%d.txt", i%7, i)] = line + strings.Repeat(".", 99-len(line)) + "\n"
	}
	return files
}

func TestCorpusHoldsOutWholeFiles(t *testing.T) {
	files := manyFiles(400)
	c := open(t, CorpusConfig{Paths: []string{write(t, files)}, HoldOut: 8})
	train, heldOut := string(c.train), string(c.heldOut)
	out := 0
	for name, text := range files {
		in, held := strings.Contains(train, text), strings.Contains(heldOut, text)
		if in == held {
			t.Errorf("%s: in the training part %v, held out %v", name, in, held)
		}
		if held {
			out++
		}
	}
	if out < 20 || out > 100 {
		t.Errorf("%d of 400 files held out, want about 50", out)
	}
	if len(train)+len(heldOut) != 400*100 {
		t.Errorf("%d + %d bytes", len(train), len(heldOut))
	}
}

// Where the folder lies does not matter, nor naming a part of it twice; another file's arrival
// changes nobody's part.
func TestCorpusFollowsFromPathsBelowTheRoot(t *testing.T) {
	files := manyFiles(200)
	here, there := write(t, files), write(t, files)
	a := open(t, CorpusConfig{Paths: []string{here}})
	b := open(t, CorpusConfig{Paths: []string{there, there}})
	if string(a.train) != string(b.train) || string(a.heldOut) != string(b.heldOut) {
		t.Error("the same files in two places give different corpora")
	}
	files["new.txt"] = strings.Repeat("new", 40)
	c := open(t, CorpusConfig{Paths: []string{write(t, files)}})
	for _, line := range strings.SplitAfter(string(a.heldOut), "\n") {
		if strings.Contains(string(c.train), line) && line != "" {
			t.Errorf("%q moved from held out to training", line)
		}
	}
}

func TestCorpusSkips(t *testing.T) {
	files := manyFiles(3)
	for _, name := range []string{".git/config", "vendor/v.txt", "a/testdata/t.txt", ".hidden"} {
		files[name] = "SKIP ME"
	}
	files["picture.png"] = "SKIP ME\x00"
	c := open(t, CorpusConfig{Paths: []string{write(t, files)}})
	if all := string(c.train) + string(c.heldOut); strings.Contains(all, "SKIP") || len(all) != 3*100 {
		t.Errorf("%d bytes read, want those of 3 files", len(all))
	}
}

// A single file is divided by its end.
func TestCorpusOfOneFile(t *testing.T) {
	path := filepath.Join(write(t, map[string]string{"book.txt": strings.Repeat("t", 900) + strings.Repeat("h", 100)}),
		"book.txt")
	c := open(t, CorpusConfig{Paths: []string{path}, HoldOut: 10})
	if len(c.train) != 900 || strings.Trim(string(c.heldOut), "h") != "" {
		t.Errorf("%d bytes to train on, held out %q", len(c.train), c.heldOut)
	}
}

func TestCorpusIsBounded(t *testing.T) {
	c := open(t, CorpusConfig{Paths: []string{write(t, manyFiles(100))}, MaxBytes: 1050})
	if n := len(c.train) + len(c.heldOut); n != 1050 {
		t.Errorf("%d bytes, want 1050", n)
	}
}

func TestCorpusErrors(t *testing.T) {
	empty := t.TempDir()
	binary := write(t, map[string]string{"a": "\x00"})
	cases := map[string]struct {
		paths []string
		want  error
		words string
	}{
		"no files":    {[]string{empty}, ErrNoData, "--data"},
		"only binary": {[]string{binary}, ErrNoData, "--data"},
		"missing":     {[]string{binary, filepath.Join(empty, "missing")}, fs.ErrNotExist, "missing"},
		"device":      {[]string{os.DevNull}, nil, "neither a file nor a folder"},
	}
	for name, c := range cases {
		_, err := OpenCorpus(t.Context(), CorpusConfig{Paths: c.paths})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: error %v, want %v with %q", name, err, c.want, c.words)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenCorpus(ctx, CorpusConfig{Paths: []string{binary}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
	err := CorpusConfig{MaxBytes: -1, HoldOut: 1}.Validate()
	for _, word := range []string{"corpus bytes", "hold out"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not named in: %v", word, err)
		}
	}
}

func TestStandardLibraryIsTheDefault(t *testing.T) {
	c := open(t, CorpusConfig{MaxBytes: 1 << 20})
	if len(c.train) < 1<<19 || len(c.heldOut) == 0 || !strings.Contains(string(c.train), "\npackage ") {
		t.Errorf("%d + %d bytes that do not look like Go", len(c.train), len(c.heldOut))
	}
}

func TestHeldOutBatchSpansThePart(t *testing.T) {
	c := &Corpus{heldOut: []byte("0123456789")}
	b := c.heldOutBatch(3, 4)
	if string(b.inputs) != "012323455678" || string(b.targets) != "123434566789" {
		t.Errorf("inputs %s, targets %s", b.inputs, b.targets)
	}
	if one := c.heldOutBatch(1, 9); string(one.inputs) != "012345678" || string(one.targets) != "123456789" {
		t.Errorf("inputs %s, targets %s", one.inputs, one.targets)
	}
}
