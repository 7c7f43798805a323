package onecpu

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Each package whose tests use bubbles imports this one, in its tests.
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
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			switch spec.Path.Value {
			case `"testing/synctest"`:
				bubbles[filepath.Dir(path)] = true
			case `"github.com/p2pdiloco/p2pdiloco/internal/onecpu"`:
				covered[filepath.Dir(path)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(bubbles) == 0 {
		t.Fatal("no test with a bubble was found: is the root of the module elsewhere?")
	}
	for dir := range bubbles {
		if !covered[dir] {
			t.Errorf("tests of %s use testing/synctest but do not import internal/onecpu", dir)
		}
	}
}
