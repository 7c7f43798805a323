package wire

import (
	"math/bits"

	"lukechampine.com/blake3"
	"lukechampine.com/blake3/guts"
)

// BLAKE3 is hashed here on the caller's goroutine alone. The hasher of lukechampine.com/blake3
// starts a goroutine for every 16 KiB. For a frame of 256 KiB that takes twice the processor time
// of the hash (go test -bench . ./internal/wire), and all cores are busy anyway while frames arrive
// on every stream.
//
// BLAKE3 is a tree over chunks of 1024 bytes. The left side of a node has the largest power of two
// of chunks that leaves at least one for the right side.

// HashBlock is the memory for 16 chunks that are hashed in parallel. It is filled by copying: to
// read 16 chunks at once straight from memory is slower than to read them one after the other
// first.
type HashBlock [guts.MaxSIMD * guts.ChunkSize]byte

// Sum256 is the BLAKE3-256 of b.
func Sum256(b []byte) [32]byte {
	if len(b) <= guts.ChunkSize {
		return blake3.Sum256(b)
	}
	return sum(b)
}

// sum has a HashBlock on its stack. Small inputs do not pay for it.
func sum(b []byte) (hash [32]byte) {
	var k HashBlock
	top := k.Top(b, 0)
	top.Flags |= guts.FlagRoot
	putWords(&hash, guts.ChainingValue(top))
	return hash
}

// Top is the top of the tree over b. chunk is the number of its first chunk.
func (k *HashBlock) Top(b []byte, chunk uint64) guts.Node {
	if len(b) <= len(k) {
		return guts.CompressBuffer((*[len(HashBlock{})]byte)(k), copy(k[:], b), &guts.IV, chunk, 0)
	}
	mid := LeftOfTree(int64(len(b)))
	l, r := k.Top(b[:mid], chunk), k.Top(b[mid:], chunk+uint64(mid/guts.ChunkSize))
	return guts.ParentNode(guts.ChainingValue(l), guts.ChainingValue(r), &guts.IV, 0)
}

// LeftOfTree is how many of n > 1024 bytes lie on the left side of their node.
func LeftOfTree(n int64) int64 { return 1 << (bits.Len64(uint64(n-1)) - 1) }
