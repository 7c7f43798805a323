package slot

import (
	"bytes"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A row is read as it was written, and each row of a table leads to its root by its path alone.
func TestFigureRows(t *testing.T) {
	var rows []FigureRow
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
		rows = append(rows, row)
	}
	root := FiguresRoot(rows)
	for f, row := range rows {
		got, ok := FiguresRootFrom(row, f, 5, FigurePath(rows, f))
		if !ok || got != root {
			t.Errorf("row %d leads to %s, %v", f, got.Short(), ok)
		}
		if other, ok := FiguresRootFrom(row, (f+1)%5, 5, FigurePath(rows, f)); ok && other == root {
			t.Errorf("row %d stands for another", f)
		}
	}
	if _, ok := FiguresRootFrom(rows[0], 5, 5, nil); ok || !FiguresRoot(nil).IsZero() {
		t.Error("a row that is none")
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
