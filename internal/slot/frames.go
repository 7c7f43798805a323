package slot

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Encoded vectors (contributions and reduced segments) are cut into frames of a fixed number of
// bytes, the last one shorter. Their root commits to every frame, so a receiver that was given the
// frame hashes can check each frame as it arrives: root = BLAKE3("p2pdiloco/frames/1" | frame bytes
// u32 | total bytes u64 | hash of each frame in order).

// FrameHashes is the BLAKE3 of each frame of data.
func FrameHashes(data []byte, frameBytes int) []Root {
	h := make([]Root, 0, (len(data)+frameBytes-1)/frameBytes)
	for len(data) > 0 {
		n := min(frameBytes, len(data))
		h = append(h, Hash(data[:n]))
		data = data[n:]
	}
	return h
}

// FrameRoot is the root of a vector of total bytes, given its frames' hashes.
func FrameRoot(hashes []Root, frameBytes int, total uint64) Root {
	b := make([]byte, 0, 64+len(hashes)*len(Root{}))
	b = append(b, "p2pdiloco/frames/1"...)
	b = wire.AppendU32(b, uint32(frameBytes))
	b = wire.AppendU64(b, total)
	return Hash(AppendRoots(b, hashes))
}

// AppendRoots appends hashes one after the other.
func AppendRoots(b []byte, hashes []Root) []byte {
	for _, h := range hashes {
		b = append(b, h[:]...)
	}
	return b
}

// ParseRoots reads what AppendRoots wrote; b holds whole hashes.
func ParseRoots(b []byte) []Root {
	hashes := make([]Root, 0, len(b)/len(Root{}))
	for h := range slices.Chunk(b, len(Root{})) {
		hashes = append(hashes, Root(h))
	}
	return hashes
}
