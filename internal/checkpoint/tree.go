package checkpoint

import (
	"encoding/binary"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"lukechampine.com/blake3/bao"
	"lukechampine.com/blake3/guts"

	"github.com/p2pdiloco/p2pdiloco/internal/hashtree"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A group of GroupBytes is a subtree of its own of BLAKE3's (hashtree). The groups are hashed in
// parallel, and the nodes above them give both the root and the bao tree. (bao.Encode is one
// thread.)

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
			buf, k := make([]byte, min(size, GroupBytes)), new(hashtree.Block)
			for g := next.Add(1) - 1; g < int64(len(nodes)); g = next.Add(1) - 1 {
				offset := g * GroupBytes
				b, err := src(buf[:min(GroupBytes, size-offset)], offset)
				if err != nil {
					errs[w] = err
					return
				}
				nodes[g] = k.Top(b, uint64(offset/guts.ChunkSize))
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

// joinGroups is the top of the tree over n bytes at pos. It appends the tree's nodes in bao's
// order: each before its children.
func joinGroups(tree *[]byte, nodes []guts.Node, pos, n int64) guts.Node {
	if n <= GroupBytes {
		return nodes[pos/GroupBytes]
	}
	at := len(*tree)
	*tree = append(*tree, make([]byte, 64)...)
	mid := hashtree.Left(n)
	l := guts.ChainingValue(joinGroups(tree, nodes, pos, mid))
	r := guts.ChainingValue(joinGroups(tree, nodes, pos+mid, n-mid))
	appendCV(appendCV((*tree)[:at], l), r)
	return guts.ParentNode(l, r, &guts.IV, 0)
}

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
