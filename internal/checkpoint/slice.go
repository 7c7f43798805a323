package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"lukechampine.com/blake3/bao"

	"github.com/p2pdiloco/p2pdiloco/internal/hashtree"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// SliceSize is the exact number of bytes of a slice of a state of size bytes.
func SliceSize(size, offset, length int64) int64 {
	return 8 + length + 64*parents(0, size, offset, offset+length)
}

// parents counts the tree nodes over [pos, pos+n) that lead to the range [from, to).
func parents(pos, n, from, to int64) int64 {
	if n <= GroupBytes || pos >= to || from >= pos+n {
		return 0
	}
	mid := hashtree.Left(n)
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
