package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"lukechampine.com/blake3"
	"lukechampine.com/blake3/bao"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// naive encodes a state number by number.
func naive(slotNumber uint64, vs [][]float32) []byte {
	b := make([]byte, 64)
	copy(b, "p2pdiloco/state/1")
	binary.BigEndian.PutUint64(b[17:], uint64(len(vs[0])))
	binary.BigEndian.PutUint32(b[25:], uint32(len(vs)-1))
	binary.BigEndian.PutUint64(b[29:], slotNumber)
	for _, v := range vs {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}

func TestStateRootIsTheHashOfTheEncoding(t *testing.T) {
	for n, k := range map[int]int{1: 1, 9: 2, 65536 - 16: 1, 65536 - 15: 1, 65536: 3, 200_001: 2} {
		vs := make([][]float32, k)
		for k := range vs {
			vs[k] = make([]float32, n)
			for i := range vs[k] {
				vs[k][i] = float32(i * (k + 1))
			}
		}
		want := naive(7, vs)
		if got := StateRoot(Count{Slot: 7}, vs...); got != slot.Root(blake3.Sum256(want)) {
			t.Fatalf("root %s is not that of the encoding", got)
		}
		if got := (Shape{uint64(n), k - 1}).Size(); got != int64(len(want)) {
			t.Fatalf("size %d, want %d", got, len(want))
		}
		tree := TreeOf(Count{Slot: 7}, vs...)
		if ref, _ := bao.EncodeBuf(want, groupLog, true); !bytes.Equal(tree.nodes, ref) {
			t.Fatal("the tree is not bao's")
		}
	}
}

// The layout of docs/spec/state.md, by hand; the root is another implementation's BLAKE3 of these
// bytes.
func TestGoldenState(t *testing.T) {
	vs := [][]float32{{1, -2, 0.5}, {0, 1, 2}}
	want := hex.EncodeToString([]byte("p2pdiloco/state/1")) + "0000000000000003" + "00000001" + "0000000000000007" +
		"0000000000000005" + strings.Repeat("00", 19) +
		"0000803f" + "000000c0" + "0000003f" + "00000000" + "0000803f" + "00000040"
	if got := hex.EncodeToString(bytes.Join(encoding(Count{7, 5}, vs), nil)); got != want {
		t.Errorf("the layout has changed:\n got %s\nwant %s", got, want)
	}
	if got, want := StateRoot(Count{7, 5}, vs...).String(),
		"793dd61a00a45b5de795445b94b55fa577ba09a7d8ac887e5e2f53638fdcb4bd"; got != want {
		t.Errorf("state root %s, want %s", got, want)
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(appendHeader(nil, Shape{7, 1}, Count{3, 2}))
	f.Add(appendHeader(nil, Shape{1 << 40, 16}, Count{Slot: math.MaxUint64}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, n, err := parseHeader(b)
		if err != nil {
			return
		}
		if !bytes.Equal(appendHeader(nil, s, n), b) {
			t.Fatal("not canonical")
		}
		if s.Size() <= headerSize {
			t.Fatalf("size %d", s.Size())
		}
	})
}

func BenchmarkStateRoot(b *testing.B) {
	v := make([]float32, 16<<20)
	b.SetBytes(int64(4 * len(v)))
	for b.Loop() {
		StateRoot(Count{Slot: 1}, v)
	}
}
