package checkpoint

import (
	"encoding/binary"
	"io"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"lukechampine.com/blake3/bao"
	"lukechampine.com/blake3/guts"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// BLAKE3 is a tree over chunks of 1024 bytes: the left side of a node is the largest power of two of chunks that leaves
// something for the right. A group of GroupBytes is therefore a subtree of its own. The groups are hashed in parallel, and
// the nodes above them give both the root and the bao tree. (A blake3.Hasher starts a goroutine for every 16 KiB and is
// half as fast as one thread that does not; bao.Encode is one thread.)

// groupLog is the size of a hash group as bao counts: 2^groupLog chunks of 1024 bytes.
const groupLog = 8

// GroupBytes is the least range of a state that can be verified alone: 256 KiB.
const GroupBytes = guts.ChunkSize << groupLog

// source gives len(buf) bytes at an offset, in buf or in place. It is called from many goroutines.
type source func(buf []byte, offset int64) ([]byte, error)

// hashTree is the bao tree (outboard, groups of GroupBytes) over size bytes, and the root.
func hashTree(src source, size int64) ([]byte, slot.Root, error) {
	nodes, err := hashGroups(src, size)
	if err != nil {
		return nil, slot.Root{}, err
	}
	tree := make([]byte, 0, bao.EncodedSize(int(size), groupLog, true))
	tree = binary.LittleEndian.AppendUint64(tree, uint64(size))
	top := joinGroups(&tree, nodes, 0, size)
	top.Flags |= guts.FlagRoot
	return tree, slot.Root(appendCV(nil, guts.ChainingValue(top))), nil
}

// hashGroups hashes each group, on all cores.
func hashGroups(src source, size int64) ([]guts.Node, error) {
	nodes := make([]guts.Node, (size+GroupBytes-1)/GroupBytes)
	workers := min(runtime.GOMAXPROCS(0), len(nodes))
	errs := make([]error, workers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			buf, k := make([]byte, min(size, GroupBytes)), new(block)
			for g := next.Add(1) - 1; g < int64(len(nodes)); g = next.Add(1) - 1 {
				offset := g * GroupBytes
				b, err := src(buf[:min(GroupBytes, size-offset)], offset)
				if err != nil {
					errs[w] = err
					return
				}
				nodes[g] = k.hashNode(b, uint64(offset/guts.ChunkSize))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// block is what is hashed side by side: 16 chunks. It is filled by copying, because reading 16 chunks at once straight
// from memory is slower than reading them in order first.
type block [guts.MaxSIMD * guts.ChunkSize]byte

// hashNode is the top of the tree over b, whose first chunk has this number.
func (k *block) hashNode(b []byte, chunk uint64) guts.Node {
	if len(b) <= len(k) {
		return guts.CompressBuffer((*[len(block{})]byte)(k), copy(k[:], b), &guts.IV, chunk, 0)
	}
	mid := leftBytes(int64(len(b)))
	l, r := k.hashNode(b[:mid], chunk), k.hashNode(b[mid:], chunk+uint64(mid/guts.ChunkSize))
	return guts.ParentNode(guts.ChainingValue(l), guts.ChainingValue(r), &guts.IV, 0)
}

// joinGroups is the top of the tree over n bytes at pos. It appends the tree's nodes in bao's order: each before its children.
func joinGroups(tree *[]byte, nodes []guts.Node, pos, n int64) guts.Node {
	if n <= GroupBytes {
		return nodes[pos/GroupBytes]
	}
	at := len(*tree)
	*tree = append(*tree, make([]byte, 64)...)
	mid := leftBytes(n)
	l := guts.ChainingValue(joinGroups(tree, nodes, pos, mid))
	r := guts.ChainingValue(joinGroups(tree, nodes, pos+mid, n-mid))
	appendCV(appendCV((*tree)[:at], l), r)
	return guts.ParentNode(l, r, &guts.IV, 0)
}

// leftBytes is the part of n > 1024 bytes that lies on the left side of their node.
func leftBytes(n int64) int64 { return 1 << (bits.Len64(uint64(n-1)) - 1) }

func appendCV(b []byte, cv [8]uint32) []byte {
	for _, w := range cv {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// fromParts gives bytes of the concatenation of parts.
func fromParts(parts [][]byte) source {
	return func(buf []byte, offset int64) ([]byte, error) {
		n := 0
		for _, p := range parts {
			if offset >= int64(len(p)) {
				offset -= int64(len(p))
				continue
			}
			p = p[offset:]
			if n == 0 && len(p) >= len(buf) {
				return p[:len(buf)], nil
			}
			n += copy(buf[n:], p)
			if offset = 0; n == len(buf) {
				break
			}
		}
		return buf[:n], nil
	}
}

// fromFile gives bytes of a file.
func fromFile(f io.ReaderAt) source {
	return func(buf []byte, offset int64) ([]byte, error) {
		n, err := f.ReadAt(buf, offset)
		if n == len(buf) {
			err = nil // it may be EOF
		}
		return buf, err
	}
}
