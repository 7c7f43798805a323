package audit

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The bytes of proofs are those of docs/protocol.md: another program, written from it alone, has
// the same hashes.
func TestGoldenProofs(t *testing.T) {
	p := testParams(600, 512)
	p.Aggregator, p.Clip = allreduce.Mean, false
	vectors := make([][]float32, 2)
	for i := range vectors {
		for j := range 600 {
			vectors[i] = append(vectors[i], float32((i+1)*j%7))
		}
	}
	w := newWorld(t, p, vectors, 0, 2)
	block := slot.Range{Begin: 512, End: 600}
	outcome := Proof{
		Kind: FalseOutcome, Statement: w.Statement, Outcome: w.opened(t, block), Openings: w.openings(t, block),
	}
	b := outcome.Append(nil)
	// kind | owner | slot, fragment, usual weight, range, root | 2 offers
	// | 3 openings of 88 floats: no inner path, a path of 1
	if want := 1 + 4 + 7 + 8 + 4 + 8 + 16 + 32 + 4 + 2*(84+7) + 3*(16+8+4+4*88+4+4+32); len(b) != want {
		t.Errorf("a proof of %d bytes, want %d", len(b), want)
	}
	contribution := Proof{Kind: FalseContribution, Offer: w.Offers[1], Openings: outcome.Openings[1:]}
	total := Proof{Kind: FalseTotal, Offer: w.Offers[1], Leaves: w.own[1].Leaves()}
	rows, frame := w.rows(t), slot.Range{Begin: 512, End: 600}
	figures := Proof{
		Kind: FalseFigures, Statement: w.Statement, Figures: slot.FiguresRoot(rows), Published: w.published(rows, 1),
		Place: 1, Outcome: w.opened(t, frame), Openings: w.openings(t, frame)[1:],
	}
	for name, c := range map[string]struct {
		proof Proof
		want  string
	}{
		"outcome":      {outcome, "b8d30d6443ad7910ca46903e19e0632babcafe09d2eabeffa814531c1795150c"},
		"figures":      {figures, "f799a7477db2e597fb416c352ecad2c691b6697f84a9f6087cc2950e49b386e6"},
		"total":        {total, "ebb4dbe12a7e74e47e41061e124eb64a2c7d3f59b3cb63966e93e774925615f7"},
		"contribution": {contribution, "3df87b5caac3b7bcd21e6f6365d481f823c89985f959153280c60cc82e464ceb"},
	} {
		if got := c.proof.Hash().String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The package has no input or output, no clock, no goroutines, and no randomness of its own.
func TestPure(t *testing.T) {
	allowed := []string{"errors", "fmt", "math", "math/rand/v2", "slices"}
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
