package allreduce

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// The planner and the aggregation are pure: no network, clock, disk, goroutine tools or logger in their files.
func TestPurePart(t *testing.T) {
	allowed := []string{"errors", "fmt", "math", "math/bits", "slices", "encoding/binary"}
	for _, file := range []string{"plan.go", "aggregator.go", "grid.go", "wire.go", "contribution.go"} {
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
