package wire

import (
	"encoding/binary"

	"lukechampine.com/blake3/guts"
)

// HashChunk is the number of bytes of a leaf of the tree.
const HashChunk = guts.ChunkSize

// HashChunks is the range of whole chunks that bytes [begin, end) of total lie in.
func HashChunks(begin, end, total int) (first, last int) {
	return begin / HashChunk * HashChunk, min((end+HashChunk-1)/HashChunk*HashChunk, total)
}

// HashCut is the BLAKE3-256 of total bytes of which part, whole chunks from byte at on, and the
// path of part are known: the chaining values of the subtrees beside it, from left to right. Of [0,
// total) there is no path. rest is the path of the chunks of bytes [begin, end), which lie in part;
// it is empty for [0, total). The hash is not ok if part is not made of whole chunks within total,
// or the path is longer or shorter than it must be.
func HashCut[R ~[32]byte](part []byte, at, total int, path []R, begin, end int) (hash R, rest []R, ok bool) {
	to := at + len(part)
	if len(part) == 0 || at < 0 || at%HashChunk != 0 || to > total || to%HashChunk != 0 && to != total {
		return hash, nil, false
	}
	w := walk[R]{part: part, at: at, path: path, begin: begin, end: end, ok: true}
	top := w.top(0, total)
	top.Flags |= guts.FlagRoot
	putWords(&hash, guts.ChainingValue(top))
	return hash, w.rest, w.ok && len(w.path) == 0
}

// walk is a way over the nodes of a tree, each after its children.
type walk[R ~[32]byte] struct {
	k          HashBlock
	part       []byte
	groups     []R // of a part that is everything, if they are known
	at         int
	path       []R // that was not used yet
	begin, end int
	rest       []R
	ok         bool
}

// top is the node over n bytes at pos, of which some are in part.
func (w *walk[R]) top(pos, n int) guts.Node {
	inside := pos >= w.at && pos+n <= w.at+len(w.part)
	if inside && (n <= HashChunk || !w.wanted(pos, n) || pos >= w.begin && pos+n <= w.end) {
		return w.k.Top(w.part[pos-w.at:][:n], uint64(pos/HashChunk))
	}
	mid, wanted := int(LeftOfTree(int64(n))), w.wanted(pos, n)
	l := w.side(pos, mid, wanted)
	r := w.side(pos+mid, n-mid, wanted)
	return guts.ParentNode(l, r, &guts.IV, 0)
}

// side is the chaining value of a node whose parent holds wanted bytes or does not.
func (w *walk[R]) side(pos, n int, wanted bool) (cv [8]uint32) {
	switch {
	case pos < w.at+len(w.part) && w.at < pos+n:
		cv = w.value(pos, n)
	case len(w.path) > 0:
		cv = words(w.path[0])
		w.path = w.path[1:]
	default:
		w.ok = false
	}
	if wanted && !w.wanted(pos, n) {
		var v R
		putWords(&v, cv)
		w.rest = append(w.rest, v)
	}
	return cv
}

// value is the chaining value of a node in part, from those of the groups below it where it has
// whole ones and no wanted bytes.
func (w *walk[R]) value(pos, n int) [8]uint32 {
	whole := pos%HashGroup == 0 && (n >= HashGroup || pos+n == len(w.part))
	switch {
	case len(w.groups) == 0 || !whole || w.wanted(pos, n):
		return guts.ChainingValue(w.top(pos, n))
	case n <= HashGroup:
		return words(w.groups[pos/HashGroup])
	}
	mid := int(LeftOfTree(int64(n)))
	return guts.ChainingValue(guts.ParentNode(w.value(pos, mid), w.value(pos+mid, n-mid), &guts.IV, 0))
}

func (w *walk[R]) wanted(pos, n int) bool { return pos < w.end && w.begin < pos+n }

func words[R ~[32]byte](b R) (cv [8]uint32) {
	for i := range cv {
		cv[i] = binary.LittleEndian.Uint32(b[4*i : 4*i+4])
	}
	return cv
}

func putWords[R ~[32]byte](b *R, cv [8]uint32) {
	var v [32]byte
	for i, w := range cv {
		binary.LittleEndian.PutUint32(v[4*i:], w)
	}
	*b = R(v)
}

// HashGroup is the number of bytes under a node that a HashBlock hashes at once.
const HashGroup = len(HashBlock{})

// HashGroups is the number of groups of n bytes, the last of which may be shorter.
func HashGroups(n int) int { return (n + HashGroup - 1) / HashGroup }

// SumGroups is Sum256, which also puts the chaining values of the groups of b into groups, one for
// each: with them OpenTree need not hash b again. Of a b of one group the value is not used.
func SumGroups[R ~[32]byte](b []byte, groups []R) (hash R) {
	if len(b) <= HashGroup {
		return R(Sum256(b))
	}
	var k HashBlock
	top := grouped(&k, b, 0, groups)
	top.Flags |= guts.FlagRoot
	putWords(&hash, guts.ChainingValue(top))
	return hash
}

// grouped is Top of a b that begins with a whole group, of which it keeps the values.
func grouped[R ~[32]byte](k *HashBlock, b []byte, chunk uint64, groups []R) guts.Node {
	if len(b) <= HashGroup {
		top := k.Top(b, chunk)
		putWords(&groups[0], guts.ChainingValue(top))
		return top
	}
	mid := int(LeftOfTree(int64(len(b))))
	l := grouped(k, b[:mid], chunk, groups[:mid/HashGroup])
	r := grouped(k, b[mid:], chunk+uint64(mid/HashChunk), groups[mid/HashGroup:])
	return guts.ParentNode(guts.ChainingValue(l), guts.ChainingValue(r), &guts.IV, 0)
}

// OpenTree is the path of the chunks of bytes [begin, end) of b, as HashCut has it. groups are
// those of SumGroups; without them b is hashed.
func OpenTree[R ~[32]byte](b []byte, groups []R, begin, end int) []R {
	w := walk[R]{part: b, groups: groups, begin: begin, end: end}
	if w.wanted(0, len(b)) {
		w.top(0, len(b))
	}
	return w.rest
}
