package wire

import "lukechampine.com/blake3/guts"

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
	o := opening[R]{b: b, groups: groups, begin: begin, end: end}
	if o.wanted(0, len(b)) {
		o.descend(0, len(b))
	}
	return o.path
}

// opening is a way down a tree to the bytes that are wanted.
type opening[R ~[32]byte] struct {
	k          HashBlock
	b          []byte
	groups     []R
	begin, end int
	path       []R
}

func (o *opening[R]) wanted(pos, n int) bool { return pos < o.end && o.begin < pos+n }

// descend adds the values beside the wanted chunks of a node over n bytes at pos, from left to
// right.
func (o *opening[R]) descend(pos, n int) {
	if n <= HashChunk || o.begin <= pos && pos+n <= o.end {
		return
	}
	mid := int(LeftOfTree(int64(n)))
	for _, side := range [2][2]int{{pos, mid}, {pos + mid, n - mid}} {
		if o.wanted(side[0], side[1]) {
			o.descend(side[0], side[1])
			continue
		}
		var v R
		putWords(&v, o.value(side[0], side[1]))
		o.path = append(o.path, v)
	}
}

// value is the chaining value of a node, from those of the groups below it where it has whole ones.
func (o *opening[R]) value(pos, n int) [8]uint32 {
	whole := pos%HashGroup == 0 && (n >= HashGroup || pos+n == len(o.b))
	switch {
	case len(o.groups) == 0 || !whole:
		return guts.ChainingValue(o.k.Top(o.b[pos:][:n], uint64(pos/HashChunk)))
	case n <= HashGroup:
		return words(o.groups[pos/HashGroup])
	default:
		mid := int(LeftOfTree(int64(n)))
		return guts.ChainingValue(guts.ParentNode(o.value(pos, mid), o.value(pos+mid, n-mid), &guts.IV, 0))
	}
}
