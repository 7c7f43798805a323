package testutil

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tests of each package that use bubbles call OneCPU.
func TestWhoUsesBubblesHasOneCPU(t *testing.T) {
	const root = "../.."
	bubbles, covered := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || (strings.HasPrefix(entry.Name(), ".") && path != root)) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		dir := filepath.Dir(path)
		bubbles[dir] = bubbles[dir] || bytes.Contains(text, []byte("\t\"testing/synctest\"\n"))
		covered[dir] = covered[dir] || bytes.Contains(text, []byte("\nfunc init() { testutil.OneCPU() }\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bubbles[filepath.Join(root, "p2p")] {
		t.Fatal("no test with a bubble was found: is the root of the module elsewhere?")
	}
	for dir, has := range bubbles {
		if has && !covered[dir] {
			t.Errorf("tests of %s use testing/synctest but do not call testutil.OneCPU from init", dir)
		}
	}
}
