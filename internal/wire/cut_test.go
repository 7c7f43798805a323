package wire

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"lukechampine.com/blake3/bao"
	"pgregory.net/rapid"
)

func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// A part with its path gives the hash of the whole, can be cut smaller, and the path is what bao
// has beside the slice.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.OneOf(rapid.IntRange(1, 70*HashChunk), rapid.Just(64*HashChunk)).Draw(t, "total")
		b := noise(total)
		want := Sum256(b)
		begin := rapid.IntRange(0, total-1).Draw(t, "begin")
		end := rapid.IntRange(begin+1, total).Draw(t, "end")
		hash, path, ok := HashCut(b, 0, total, [][32]byte(nil), begin, end)
		if !ok || hash != want {
			t.Fatal("the whole has another hash")
		}
		first, last := HashChunks(begin, end, total)
		hash, rest, ok := HashCut(b[first:last], first, total, path, 0, total)
		if !ok || hash != want || len(rest) > 0 {
			t.Fatal("the part has another hash")
		}
		in := rapid.IntRange(begin, end-1).Draw(t, "inner begin")
		out := rapid.IntRange(in+1, end).Draw(t, "inner end")
		hash, narrow, ok := HashCut(b[first:last], first, total, path, in, out)
		_, direct, _ := HashCut(b, 0, total, [][32]byte(nil), in, out)
		if !ok || hash != want || !slices.Equal(narrow, direct) {
			t.Fatal("a part that is cut smaller has another path")
		}
		groups := make([][32]byte, HashGroups(total))
		if SumGroups(b, groups) != want || !slices.Equal(OpenTree(b, groups, begin, end), path) ||
			!slices.Equal(OpenTree[[32]byte](b, nil, begin, end), path) {
			t.Fatal("another way to the path has another one")
		}
		checkBao(t, b, path, begin, end)
		checkWrong(t, b, path, first, last)
	})
}

// checkBao compares a path with the slice in which bao has both sides of each node.
func checkBao(t *rapid.T, b []byte, path [][32]byte, begin, end int) {
	outboard, root := bao.EncodeBuf(b, 0, false)
	var slice bytes.Buffer
	err := bao.ExtractSlice(&slice, bytes.NewReader(outboard), nil, 0, uint64(begin), uint64(end-begin))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := bao.VerifySlice(slice.Bytes(), 0, uint64(begin), uint64(end-begin), root); !ok || root != Sum256(b) {
		t.Fatal("bao does not verify its own slice")
	}
	for _, v := range path {
		if !bytes.Contains(slice.Bytes(), v[:]) {
			t.Fatal("a value of the path is not in the slice of bao")
		}
	}
}

func checkWrong(t *rapid.T, b []byte, path [][32]byte, first, last int) {
	total, want := len(b), Sum256(b)
	same := func(part []byte, at, total int, path [][32]byte) bool {
		hash, _, ok := HashCut(part, at, total, path, 0, total)
		return ok && hash == want
	}
	part := slices.Clone(b[first:last])
	if same(part, first, total, append(slices.Clone(path), want)) || same(part[:len(part)-1], first, total, path) ||
		same(part, first+1, total, path) || same(part, first+HashChunk, total, path) ||
		same(part, -HashChunk, total, path) ||
		same(nil, first, total, path) || len(path) > 0 && same(part, first, total, path[1:]) {
		t.Fatal("another part passes for this one")
	}
	if part[0]++; same(part, first, total, path) {
		t.Fatal("changed bytes pass")
	}
}

func BenchmarkCut(b *testing.B) {
	frame := noise(256 << 10)
	b.Run("open 16 KiB of 256 KiB", func(b *testing.B) {
		for b.Loop() {
			HashCut(frame, 0, len(frame), [][32]byte(nil), 32<<10, 48<<10)
		}
	})
	groups := make([][32]byte, HashGroups(len(frame)))
	SumGroups(frame, groups)
	b.Run("open 16 KiB of 256 KiB by groups", func(b *testing.B) {
		for b.Loop() {
			OpenTree(frame, groups, 32<<10, 48<<10)
		}
	})
	_, path, _ := HashCut(frame, 0, len(frame), [][32]byte(nil), 32<<10, 48<<10)
	b.Run("verify 16 KiB of 256 KiB", func(b *testing.B) {
		for b.Loop() {
			HashCut(frame[32<<10:48<<10], 32<<10, len(frame), path, 0, len(frame))
		}
	})
}
