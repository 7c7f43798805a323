package attach

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// naive counts how often each element of a tensor is held, by distinct pieces.
func naive(shape []uint64, pieces []wire.Piece) (counts []int) {
	total := trainer.Tensor{Shape: shape}.Elements()
	counts = make([]int, total)
	seen := map[string]bool{}
	for _, p := range pieces {
		key := message(0, &wire.Layout{Pieces: []wire.Piece{p}})
		if seen[key] {
			continue
		}
		seen[key] = true
		for e := range total {
			position, rest := make([]uint64, len(shape)), e
			for i := len(shape) - 1; i >= 0; i-- {
				position[i], rest = rest%shape[i], rest/shape[i]
			}
			if p.Flat {
				position = []uint64{e}
			}
			inside := true
			for i, x := range position {
				inside = inside && x >= p.Offsets[i] && x < p.Offsets[i]+p.Extents[i]
			}
			if inside {
				counts[e]++
			}
		}
	}
	return counts
}

// TestCoverAgainstANaiveCount draws pieces, mostly cuts of a tensor into rows or ranges of which
// some are moved, and compares the judgement with a count of each element.
func TestCoverAgainstANaiveCount(t *testing.T) {
	good, bad := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.Uint64Range(1, 4), 1, 3).Draw(t, "shape")
		flat := rapid.Bool().Draw(t, "flat")
		space := shape
		if flat {
			space = []uint64{trainer.Tensor{Shape: shape}.Elements()}
		}
		pieces := cut(t, space, flat)
		ranks := make([]*wire.Layout, rapid.IntRange(1, 3).Draw(t, "ranks"))
		for i := range ranks {
			ranks[i] = &wire.Layout{Tensors: []wire.Tensor{{Tensor: trainer.Tensor{Name: "w", Shape: shape}}}}
		}
		for _, p := range pieces {
			l := ranks[rapid.IntRange(0, len(ranks)-1).Draw(t, "rank")]
			l.Pieces = append(l.Pieces, p)
		}
		least, most, first := 1<<30, 0, -1
		for e, n := range naive(shape, pieces) {
			least, most = min(least, n), max(most, n)
			if n == 0 && first < 0 {
				first = e
			}
		}
		_, writes, err := Cover(ranks)
		switch {
		case most > 1 && (err == nil || !strings.Contains(err.Error(), "overlap")):
			t.Fatalf("overlapping pieces: %v", err)
		case most <= 1 && least == 0 && (err == nil || !strings.Contains(err.Error(), "are held by no rank")):
			t.Fatalf("missing element %d: %v", first, err)
		case most == 1 && least == 1 && err != nil:
			t.Fatal(err)
		}
		if err != nil {
			bad++
			return
		}
		good++
		written := []wire.Piece{}
		for i, l := range ranks {
			for j, p := range l.Pieces {
				if writes[i][j] == 1 {
					written = append(written, p)
				}
			}
		}
		total := 0
		for _, p := range written { // each counts, also where it equals another
			total += int(held{Piece: p}.volume())
		}
		if total != len(naive(shape, nil)) {
			t.Fatalf("%d elements are written", total)
		}
	})
	if good == 0 || bad == 0 {
		t.Errorf("%d good and %d bad layouts were drawn", good, bad)
	}
}

// cut divides a space along its first dimension, doubles some parts, and sometimes moves or drops
// one.
func cut(t *rapid.T, space []uint64, flat bool) (pieces []wire.Piece) {
	at := uint64(0)
	for at < space[0] {
		n := rapid.Uint64Range(0, space[0]-at).Draw(t, "rows")
		p := wire.Piece{Flat: flat, Offsets: make([]uint64, len(space)), Extents: append([]uint64(nil), space...)}
		p.Offsets[0], p.Extents[0] = at, n
		at += max(n, rapid.Uint64Range(0, 1).Draw(t, "hole"))
		for range rapid.IntRange(1, 2).Draw(t, "copies") {
			pieces = append(pieces, p)
		}
		if len(pieces) > 8 {
			break
		}
	}
	return pieces
}
