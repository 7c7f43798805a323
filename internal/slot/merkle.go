package slot

import (
	"math/bits"
	"slices"
)

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

// Tree holds all nodes of a tree, level by level: the leaves first, then the nodes over two of the
// level below. The last one of a level that has no other beside it goes up as it is.
type Tree [][]Root

// newTree is the tree over n leaves.
func newTree(n int, leaf func(i int) Root) Tree {
	level := make([]Root, n)
	for i := range level {
		level[i] = leaf(i)
	}
	t := Tree{level}
	for len(level) > 1 {
		above := make([]Root, 0, (len(level)+1)/2)
		for pair := range slices.Chunk(level, 2) {
			if len(pair) == 1 {
				above = append(above, pair[0])
			} else {
				above = append(above, nodeHash(pair[0], pair[1]))
			}
		}
		t, level = append(t, above), above
	}
	return t
}

// root is what is above all leaves.
func (t Tree) root() Root {
	if len(t[0]) == 0 {
		return Hash(nil)
	}
	return t[len(t)-1][0]
}

// Path is the path of leaf i: the other side of each node above it, the lowest first.
func (t Tree) Path(i int) (path []Root) {
	for _, level := range t {
		if beside := i ^ 1; beside < len(level) {
			path = append(path, level[beside])
		}
		i /= 2
	}
	return path
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
