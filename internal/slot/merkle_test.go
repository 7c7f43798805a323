package slot

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// rfcTree is section 2.1 of RFC 6962 as it stands there.
func rfcTree(leaves [][]byte) Root {
	switch len(leaves) {
	case 0:
		return Hash(nil)
	case 1:
		return Hash(append([]byte{0}, leaves[0]...))
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	l, r := rfcTree(leaves[:k]), rfcTree(leaves[k:])
	return Hash(append(append([]byte{1}, l[:]...), r[:]...))
}

func testLeaves(n int) (hashes []Root, leaves []FrameLeaf, plain, signed [][]byte) {
	for i := range n {
		h := Hash(fmt.Append(nil, "frame", i))
		l := FrameLeaf{float64(i) / 3, h}
		hashes, leaves = append(hashes, h), append(leaves, l)
		plain, signed = append(plain, h[:]), append(signed, l.Append(nil))
	}
	return hashes, leaves, plain, signed
}

func TestTreesAreThoseOfTheRFC(t *testing.T) {
	for n := range 70 {
		hashes, leaves, plain, signed := testLeaves(n)
		if newTree(n, frameLeaves(hashes)).root() != rfcTree(plain) {
			t.Errorf("%d frames have another root", n)
		}
		if ContributionTree(leaves).root() != rfcTree(signed) {
			t.Errorf("%d frames of a contribution have another root", n)
		}
	}
}

// A path leads from each frame to the root, and from no other frame, size or peer.
func TestPathsLeadToTheRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frameBytes := rapid.IntRange(1, 50).Draw(t, "frame bytes")
		n := rapid.IntRange(1, 40).Draw(t, "frames")
		total := uint64((n-1)*frameBytes + rapid.IntRange(1, frameBytes).Draw(t, "last"))
		i := rapid.IntRange(0, n-1).Draw(t, "i")
		hashes, leaves, _, _ := testLeaves(n)
		root, own := FrameRoot(hashes, frameBytes, total), ContributionRoot("ada", leaves, frameBytes, total)
		path, ownPath := FramePath(hashes, i), ContributionTree(leaves).Path(i)
		if len(path) > MaxPath || len(ownPath) != len(path) {
			t.Fatalf("paths of %d and %d", len(path), len(ownPath))
		}
		from := func(leaf FrameLeaf, i int, path []Root, frameBytes int, total uint64) bool {
			a, ok := FrameRootFrom(leaf.Hash, i, path, frameBytes, total)
			b, fits := ContributionRootFrom("ada", leaf, i, path, frameBytes, total)
			if ok != fits {
				t.Fatal("one has such a frame and the other one has not")
			}
			return ok && (a == root || b == own)
		}
		if a, ok := FrameRootFrom(hashes[i], i, path, frameBytes, total); !ok || a != root {
			t.Fatalf("frame %d of %d: %v", i, n, ok)
		}
		if a, ok := ContributionRootFrom("ada", leaves[i], i, ownPath, frameBytes, total); !ok || a != own {
			t.Fatalf("frame %d of %d of a contribution: %v", i, n, ok)
		}
		if a, _ := ContributionRootFrom("bob", leaves[i], i, ownPath, frameBytes, total); a == own {
			t.Fatal("another peer has the same root")
		}
		false1 := FrameLeaf{leaves[i].NormSq + 1, hashes[i]}
		if a, _ := ContributionRootFrom("ada", false1, i, ownPath, frameBytes, total); a == own {
			t.Fatal("another norm has the same root")
		}
		for _, p := range [][]Root{path, ownPath} {
			if from(leaves[i], i+1, p, frameBytes, total) || from(leaves[i], -1, p, frameBytes, total) ||
				from(leaves[i], i, append([]Root{{}}, p...), frameBytes, total) ||
				from(leaves[i], i, p, frameBytes+1, total) || from(leaves[i], i, p, 0, total) ||
				from(leaves[i], i, p, frameBytes, total+1) || from(leaves[i], i, p, frameBytes, 0) ||
				from(leaves[i], i, p, frameBytes, math.MaxUint64) ||
				len(p) > 0 && from(leaves[i], i, p[1:], frameBytes, total) {
				t.Fatal("a path leads there from elsewhere")
			}
		}
	})
}

func TestFrameLeafKeepsEveryBit(t *testing.T) {
	l := FrameLeaf{math.Float64frombits(0x7ff8000000000001), Hash([]byte("x"))}
	b := l.Append(nil)
	if got := ReadFrameLeaf(wire.NewReader(b)); len(b) != FrameLeafSize || !got.Equal(l) {
		t.Errorf("%v became %v", l, got)
	}
	if (FrameLeaf{NormSq: 0}).Equal(FrameLeaf{NormSq: math.Copysign(0, -1)}) {
		t.Error("norms are not compared by their bits")
	}
}
