package figures

import (
	"encoding/binary"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// markFrames is the number of frames that a contribution is known by, at most. They lie at equal
// distances.
const markFrames = 32

// mark is what a contribution is known by: the first 8 bytes of the hashes of some frames. It has
// 0 for a frame of zeros, which honest contributions to a part that does not change have in common.
type mark []uint64

func markOf(leaves []slot.FrameLeaf) mark {
	n := min(len(leaves), markFrames)
	p := make(mark, n)
	for i := range p {
		if l := leaves[len(leaves)*i/n]; l.NormSq > 0 {
			p[i] = max(1, binary.BigEndian.Uint64(l.Hash[:]))
		}
	}
	return p
}

// filled counts the frames that are not zeros.
func (p mark) filled() (n int) {
	for _, v := range p {
		if v != 0 {
			n++
		}
	}
	return n
}

// same says whether so many equal frames make two contributions the same: more than half of those
// that are not zeros in either. A few are equal among honest peers, too: rows of an embedding that
// nobody's data uses change by the weight decay alone.
func same(equal int, a, b mark) bool { return 2*equal > max(a.filled(), b.filled()) }

// equal counts the frames that two contributions to the same fragment have in common.
func equal(a, b mark) (n int) {
	for i := range min(len(a), len(b)) {
		if a[i] != 0 && a[i] == b[i] {
			n++
		}
	}
	return n
}
