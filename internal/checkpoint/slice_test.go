package checkpoint

import (
	"bytes"
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestSlices(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	c := save(t, s, 1)
	want := naive(1, vectors(1))
	last := c.Size / GroupBytes * GroupBytes
	for _, restart := range []bool{false, true} { // with the tree of Save, and with one made anew
		if restart {
			s, _ = testStore(t, dir)
		}
		for _, r := range [][2]int64{
			{0, GroupBytes},
			{0, c.Size},
			{GroupBytes, 2 * GroupBytes},
			{last, c.Size - last},
		} {
			b, err := s.AppendSlice(nil, c.Root, r[0], r[1])
			if err != nil {
				t.Fatal(err)
			}
			if int64(len(b)) != SliceSize(c.Size, r[0], r[1]) {
				t.Fatalf("%d bytes, expected %d", len(b), SliceSize(c.Size, r[0], r[1]))
			}
			got := make([]byte, r[1])
			noError(t, VerifySlice(got, b, c.Root, c.Size, r[0]))
			if !bytes.Equal(got, want[r[0]:r[0]+r[1]]) {
				t.Fatal("other bytes")
			}
			for _, i := range []int{0, 8, 100, len(b) - 1} {
				b[i] ^= 1
				if VerifySlice(got, b, c.Root, c.Size, r[0]) == nil {
					t.Fatalf("byte %d changed unseen", i)
				}
				b[i] ^= 1
			}
			if VerifySlice(got, b, slot.Hash(b), c.Size, r[0]) == nil {
				t.Fatal("verified against another root")
			}
		}
	}
}

func TestSliceRefusals(t *testing.T) {
	s, _ := testStore(t, t.TempDir())
	c := save(t, s, 1)
	for _, r := range [][2]int64{
		{-GroupBytes, GroupBytes},
		{0, 0},
		{0, -1},
		{1, GroupBytes},
		{0, 1000},
		{0, c.Size + 1},
		{1 << 62, GroupBytes},
		{GroupBytes, 1 << 62},
	} {
		if _, err := s.AppendSlice(nil, c.Root, r[0], r[1]); err == nil {
			t.Fatalf("range %v was served", r)
		}
	}
	if _, err := s.AppendSlice(nil, slot.Root{1}, 0, GroupBytes); !errors.Is(err, ErrNotHeld) {
		t.Fatalf("unknown state: %v", err)
	}
}

func FuzzVerifySlice(f *testing.F) {
	v := make([]float32, 2*GroupBytes/4)
	for i := range v {
		v[i] = float32(i)
	}
	data := naive(1, [][]float32{v})
	size := int64(len(data))
	dir := f.TempDir()
	s, err := Open(dir, Config{Shape: Shape{uint64(len(v)), 0}, FrameBytes: 1})
	if err != nil {
		f.Fatal(err)
	}
	root := StateRoot(Count{Slot: 1}, v)
	if err := s.Save(1, Count{Slot: 1}, root, v); err != nil {
		f.Fatal(err)
	}
	last := size - 2*GroupBytes // bytes of the last, short group
	b, err := s.AppendSlice(nil, root, 2*GroupBytes, last)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		dst := make([]byte, last)
		if VerifySlice(dst, in, root, size, 2*GroupBytes) == nil && !bytes.Equal(in, b) {
			t.Fatal("another slice verified")
		}
	})
}
