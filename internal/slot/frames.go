package slot

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Encoded vectors (contributions and reduced segments) are cut into frames of a fixed number of
// bytes, the last one shorter. Their root commits to every frame: a receiver that was given the
// frame hashes can check each frame as it arrives, and one that was given a single frame can check
// it with its path in the tree over the frames (merkle.go).
//
//	frame root        = H("p2pdiloco/frames/2" | frame bytes u32 | total bytes u64 | root of the tree)
//	contribution root = H("p2pdiloco/contribution/2" | peer | frame bytes u32 | total bytes u64 | root of the tree)
//
// The leaves of the first are the hashes of the frames; those of the second are FrameLeafs. The
// peer is in it so that no other one can offer a root that it has only seen announced.
const (
	framesDomain       = "p2pdiloco/frames/2"
	contributionDomain = "p2pdiloco/contribution/2"
)

// MaxPath is the length of the longest path in a tree over frames: 2^20 is their greatest number.
const MaxPath = 20

// Frames is an encoded vector with the BLAKE3 of each of its frames.
type Frames struct {
	Bytes  []byte
	Hashes []Root // those of Bytes: nobody hashes them again
}

// Cut hashes the frames of a vector.
func Cut(data []byte, frameBytes int) Frames {
	f := Frames{Bytes: data}
	for frame := range slices.Chunk(data, frameBytes) {
		f.Hashes = append(f.Hashes, Hash(frame))
	}
	return f
}

// Root is the root of the vector.
func (f Frames) Root(frameBytes int) Root {
	return FrameRoot(f.Hashes, frameBytes, uint64(len(f.Bytes)))
}

// FrameRoot is the root of a vector of total bytes, given its frames' hashes.
func FrameRoot(hashes []Root, frameBytes int, total uint64) Root {
	return sealFrames(newTree(len(hashes), frameLeaves(hashes)).root(), frameBytes, total)
}

// FramePath is the path from frame i to the root; see FrameRootFrom.
func FramePath(hashes []Root, i int) []Root {
	return newTree(len(hashes), frameLeaves(hashes)).Path(i)
}

// FrameRootFrom is the FrameRoot of a vector of which frame i has this hash and path. It is false
// where there is no frame i, or the path is not as long as that of this frame.
func FrameRootFrom(hash Root, i int, path []Root, frameBytes int, total uint64) (Root, bool) {
	if !hasFrame(i, frameBytes, total) {
		return Root{}, false
	}
	tree, ok := treeFrom(leafHash(hash[:]), i, framesIn(frameBytes, total), path)
	return sealFrames(tree, frameBytes, total), ok
}

func frameLeaves(hashes []Root) func(i int) Root {
	return func(i int) Root { return leafHash(hashes[i][:]) }
}

func sealFrames(tree Root, frameBytes int, total uint64) Root {
	return seal([]byte(framesDomain), tree, frameBytes, total)
}

// seal hashes what stands before a tree's root, and that.
func seal(b []byte, tree Root, frameBytes int, total uint64) Root {
	return Hash(appendRoot(wire.AppendU64(wire.AppendU32(b, uint32(frameBytes)), total), tree))
}

// framesIn is the number of frames of a vector of total bytes, at least one.
func framesIn(frameBytes int, total uint64) int {
	return int((total-1)/uint64(frameBytes)) + 1
}

// hasFrame tells whether a vector of total bytes has a frame i.
func hasFrame(i, frameBytes int, total uint64) bool {
	if i < 0 || frameBytes < 1 || total == 0 || total > math.MaxInt64 {
		return false
	}
	return i < framesIn(frameBytes, total)
}

// FrameLeaf is what a contribution commits to of one of its frames.
type FrameLeaf struct {
	NormSq float64 // squared norm of the decoded values, as kernel.NormSq gives it
	Hash   Root    // of the encoded bytes
}

// FrameLeafSize is the number of bytes that a FrameLeaf takes.
const FrameLeafSize = 8 + len(Root{})

// Append appends the bits of the norm, and the hash.
func (l FrameLeaf) Append(b []byte) []byte {
	return appendRoot(wire.AppendU64(b, math.Float64bits(l.NormSq)), l.Hash)
}

// ReadFrameLeaf reads what Append wrote. Any bits are some norm's: a false one is proven by the
// frame.
func ReadFrameLeaf(r *wire.Reader) FrameLeaf {
	return FrameLeaf{math.Float64frombits(r.U64()), readRoot(r)}
}

// Equal compares the norms by their bits.
func (l FrameLeaf) Equal(o FrameLeaf) bool {
	return math.Float64bits(l.NormSq) == math.Float64bits(o.NormSq) && l.Hash == o.Hash
}

// ContributionTree is the tree over what a contribution commits to of its frames.
func ContributionTree(leaves []FrameLeaf) Tree {
	return newTree(len(leaves), func(i int) Root { return leafHash(leaves[i].Append(make([]byte, 0, FrameLeafSize))) })
}

// Seal is what a peer's offer commits to: the root of its contribution of total bytes, of which
// this is the ContributionTree.
func (t Tree) Seal(peer PeerID, frameBytes int, total uint64) Root {
	return sealContribution(peer, t.root(), frameBytes, total)
}

// ContributionRoot is Seal of the tree over these leaves.
func ContributionRoot(peer PeerID, leaves []FrameLeaf, frameBytes int, total uint64) Root {
	return ContributionTree(leaves).Seal(peer, frameBytes, total)
}

// ContributionRootFrom is the ContributionRoot of a contribution of which frame i has this leaf and
// path. It is false where there is no frame i, or the path is not as long as that of this frame.
func ContributionRootFrom(peer PeerID, leaf FrameLeaf, i int, path []Root, frameBytes int, total uint64) (Root, bool) {
	if !hasFrame(i, frameBytes, total) {
		return Root{}, false
	}
	tree, ok := treeFrom(leafHash(leaf.Append(nil)), i, framesIn(frameBytes, total), path)
	return sealContribution(peer, tree, frameBytes, total), ok
}

func sealContribution(peer PeerID, tree Root, frameBytes int, total uint64) Root {
	return seal(appendPeer([]byte(contributionDomain), peer), tree, frameBytes, total)
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
