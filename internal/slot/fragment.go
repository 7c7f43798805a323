package slot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// MaxFragments is how many fragments a vector may be divided into.
const MaxFragments = 256

// FragmentOf is the fragment that a slot updates. Slots are counted from 1 and take the fragments
// in turn.
func FragmentOf(slotNumber, fragments uint64) uint32 { return uint32((slotNumber - 1) % fragments) }

// FragmentElements is the number of elements of each of n fragments of a vector. The numbers differ
// by at most one, and the larger ones come first.
func FragmentElements(elements, n uint64) []uint64 {
	sizes := make([]uint64, n)
	for p := range sizes {
		sizes[p] = elements / n
		if uint64(p) < elements%n {
			sizes[p]++
		}
	}
	return sizes
}

// Fragment is the part of the flat vector that one slot updates (Streaming DiLoCo, arXiv
// 2501.18512). In contributions, plans, segments and outcomes it is one vector of Elements()
// values: its ranges, one after the other.
type Fragment struct {
	Ranges []Range // of the flat vector; ascending, none empty, none touching the next
}

// Elements is the number of elements.
func (f Fragment) Elements() (n uint64) {
	for _, r := range f.Ranges {
		n += r.Len()
	}
	return n
}

// Fragments divides a valid layout into n fragments whose sizes differ by at most one element. n is
// at least 1, and at most MaxFragments and the number of elements. The tensors are put into a
// sequence, and the sequence is cut into equal parts, also within tensors. The sequence is that of
// the layout, or strided over the layers (see order), so that each fragment has layers of all
// depths.
func Fragments(l Layout, n uint64, strided bool) []Fragment {
	sequence := ranges(l)
	if strided {
		sequence = order(l, n)
	}
	fragments := make([]Fragment, n)
	for p, left := range FragmentElements(l.Elements(), n) {
		f := &fragments[p]
		for left > 0 {
			take := min(left, sequence[0].Len())
			f.Ranges = append(f.Ranges, Range{sequence[0].Begin, sequence[0].Begin + take})
			if sequence[0].Begin, left = sequence[0].Begin+take, left-take; sequence[0].Len() == 0 {
				sequence = sequence[1:]
			}
		}
		f.Ranges = joined(f.Ranges)
	}
	return fragments
}

// ranges returns the places of the tensors.
func ranges(l Layout) []Range {
	rs, at := make([]Range, len(l)), uint64(0)
	for i, t := range l {
		rs[i] = Range{at, at + t.Elements()}
		at = rs[i].End
	}
	return rs
}

// joined sorts ranges and joins those that touch.
func joined(rs []Range) []Range {
	slices.SortFunc(rs, func(a, b Range) int { return cmp.Compare(a.Begin, b.Begin) })
	out := rs[:0]
	for _, r := range rs {
		if last := len(out) - 1; last >= 0 && out[last].End == r.Begin {
			out[last].End = r.End
		} else {
			out = append(out, r)
		}
	}
	return out
}

// order strides over the layers by n: first the tensors before all layers, then layers 0, n, 2n, …,
// 1, n+1, …, then the tensors that belong to no layer and lie behind the first one. Within a layer
// the tensors keep their sequence.
func order(l Layout, n uint64) []Range {
	type placed struct {
		part         int // before, in, behind the layers
		phase, layer uint64
		Range
	}
	behind := false
	sequence := make([]placed, len(l))
	for i, r := range ranges(l) {
		layer, ok := layerOf(l[i])
		sequence[i] = placed{Range: r}
		switch {
		case ok:
			behind = true
			sequence[i].part, sequence[i].phase, sequence[i].layer = 1, layer%n, layer
		case behind:
			sequence[i].part = 2
		}
	}
	slices.SortStableFunc(sequence, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.phase, b.phase), cmp.Compare(a.layer, b.layer))
	})
	out := make([]Range, len(sequence))
	for i, s := range sequence {
		out[i] = s.Range
	}
	return out
}

// layerOf is the first part of a tensor's dotted name that is a whole number of up to nine digits:
// 3 in "model.layers.3.mlp.up.weight".
func layerOf(t Tensor) (layer uint64, ok bool) {
	for part := range strings.SplitSeq(t.Name, ".") {
		if part == "" || len(part) > 9 || strings.Trim(part, "0123456789") != "" {
			continue
		}
		layer, err := strconv.ParseUint(part, 10, 64)
		return layer, err == nil
	}
	return 0, false
}
