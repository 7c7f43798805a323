package slot

import (
	"bytes"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A row is read as it was written.
func TestFigureRows(t *testing.T) {
	for f := range 5 {
		row := FigureRow{Norm: float32(f)}
		for i := range 3 {
			row.Of = append(row.Of, Figure{float32(i), -float32(f), uint16(i * f)})
		}
		b := row.Append(nil)
		if len(b) != FigureRowSize(3) {
			t.Fatalf("a row of %d bytes, want %d", len(b), FigureRowSize(3))
		}
		r := wire.NewReader(b)
		got := ReadFigureRow(r, 3)
		if err := r.Done(); err != nil || !bytes.Equal(got.Append(nil), b) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}

func TestFiguresThatMakeNoSense(t *testing.T) {
	nan := float32(math.NaN())
	for name, r := range map[string]FigureRow{
		"norm of the outcome": {Norm: -1, Of: make([]Figure, 1)},
		"norm":                {Of: []Figure{{Norm: nan}}},
		"product":             {Of: []Figure{{Along: float32(math.Inf(1))}}},
		"trimmed":             {Of: []Figure{{Trimmed: FigureScale + 1}}},
	} {
		if r.Valid() {
			t.Errorf("%s: %+v is valid", name, r)
		}
	}
	if r := (FigureRow{Norm: 1, Of: []Figure{{1, -1, FigureScale}}}); !r.Valid() {
		t.Error("a row that makes sense is not valid")
	}
}
