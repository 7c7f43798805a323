package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"lukechampine.com/blake3/bao"
	"lukechampine.com/blake3/guts"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A group of GroupBytes is a subtree of its own of BLAKE3's (package wire). The groups are hashed
// in parallel, and the nodes above them give both the root and the bao tree. (bao.Encode is one
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
			buf, k := make([]byte, min(size, GroupBytes)), new(wire.HashBlock)
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
	return nodes, errors.Join(errs...)
}

// joinGroups is the top of the tree over n bytes at pos. It appends the tree's nodes in bao's
// order: each before its children.
func joinGroups(tree *[]byte, nodes []guts.Node, pos, n int64) guts.Node {
	if n <= GroupBytes {
		return nodes[pos/GroupBytes]
	}
	at := len(*tree)
	*tree = append(*tree, make([]byte, 64)...)
	mid := wire.LeftOfTree(n)
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

// SliceSize is the exact number of bytes of a slice of a state of size bytes.
func SliceSize(size, offset, length int64) int64 {
	return 8 + length + 64*parents(0, size, offset, offset+length)
}

// parents counts the tree nodes over [pos, pos+n) that lead to the range [from, to).
func parents(pos, n, from, to int64) int64 {
	if n <= GroupBytes || pos >= to || from >= pos+n {
		return 0
	}
	mid := wire.LeftOfTree(n)
	return 1 + parents(pos, mid, from, to) + parents(pos+mid, n-mid, from, to)
}

// VerifySlice checks a slice against the root of a state of size bytes and writes the range's bytes
// to dst, whose length is that of the range. The slice may come from a stranger.
func VerifySlice(dst, slice []byte, root slot.Root, size, offset int64) error {
	length := int64(len(dst))
	if err := checkRange(size, offset, length); err != nil {
		return err
	}
	if int64(len(slice)) != SliceSize(size, offset, length) {
		return fmt.Errorf("checkpoint: slice of %d bytes where %d are due", len(slice), SliceSize(size, offset, length))
	}
	// The length in front comes from the sender, and the shape of the tree follows from it. So it
	// must be the known one.
	if got := binary.LittleEndian.Uint64(slice); got != uint64(size) {
		return fmt.Errorf("checkpoint: slice of a state of %d bytes, not %d", got, size)
	}
	w := bytes.NewBuffer(dst[:0])
	ok, err := bao.DecodeSlice(w, bytes.NewReader(slice), groupLog, uint64(offset), uint64(length), root)
	if err != nil {
		return fmt.Errorf("checkpoint: slice: %w", err)
	}
	if !ok {
		return fmt.Errorf("checkpoint: the bytes at %d do not belong to the state %s", offset, root.Short())
	}
	return nil
}

func checkRange(size, offset, length int64) error {
	if offset < 0 || length <= 0 || offset > size || length > size-offset || offset%GroupBytes != 0 ||
		length%GroupBytes != 0 && offset+length != size {
		return fmt.Errorf("checkpoint: range [%d, +%d) of a state of %d bytes", offset, length, size)
	}
	return nil
}
