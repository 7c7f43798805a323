package slot

import "math/bits"

// A tree over hashes has the shape of RFC 6962, section 2.1: the left side of a node has the
// largest power of two of leaves that leaves at least one for the right side. A leaf is H(0x00 |
// its bytes), a node H(0x01 | left | right), and a tree without leaves the hash of nothing. So no
// node can be taken for a leaf.
const (
	treeLeaf = 0
	treeNode = 1
)

func leafHash(b []byte) Root { return Hash(append([]byte{treeLeaf}, b...)) }

func nodeHash(left, right Root) Root {
	var b [1 + 2*len(Root{})]byte
	b[0] = treeNode
	copy(b[1:], left[:])
	copy(b[1+len(left):], right[:])
	return Hash(b[:])
}

// leftOf is how many of n > 1 leaves lie on the left side of their node.
func leftOf(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// treeRoot is the root of the tree over leaves [first, last).
func treeRoot(leaf func(i int) Root, first, last int) Root {
	switch n := last - first; n {
	case 0:
		return Hash(nil)
	case 1:
		return leaf(first)
	default:
		mid := first + leftOf(n)
		return nodeHash(treeRoot(leaf, first, mid), treeRoot(leaf, mid, last))
	}
}

// treePath is the path of leaf i in the tree over leaves [first, last): the other side of each node
// above it, the lowest first.
func treePath(leaf func(i int) Root, i, first, last int) []Root {
	if last-first < 2 {
		return nil
	}
	mid := first + leftOf(last-first)
	if i < mid {
		return append(treePath(leaf, i, first, mid), treeRoot(leaf, mid, last))
	}
	return append(treePath(leaf, i, mid, last), treeRoot(leaf, first, mid))
}

// treeFrom is the root of the tree over n leaves of which leaf i has this hash and path. It is
// false if the path is longer or shorter than that of the leaf.
func treeFrom(leaf Root, i, n int, path []Root) (Root, bool) {
	if n < 2 {
		return leaf, len(path) == 0
	}
	if len(path) == 0 {
		return Root{}, false
	}
	below, side := path[:len(path)-1], path[len(path)-1]
	left := leftOf(n)
	if i < left {
		root, ok := treeFrom(leaf, i, left, below)
		return nodeHash(root, side), ok
	}
	root, ok := treeFrom(leaf, i-left, n-left, below)
	return nodeHash(side, root), ok
}
