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
	w := walk[R]{part: b, groups: groups, begin: begin, end: end}
	if w.wanted(0, len(b)) {
		w.top(0, len(b))
	}
	return w.rest
}
