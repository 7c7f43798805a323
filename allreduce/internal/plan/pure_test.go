package plan

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The planner and the aggregation are pure: no network, clock, disk, goroutine tools or logger.
func TestPure(t *testing.T) {
	allowed := []string{"cmp", "errors", "fmt", "math", "math/bits", "slices", "time", "encoding/binary"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if !slices.Contains(allowed, path) && !strings.HasPrefix(path, "github.com/p2pdiloco/p2pdiloco/") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}
