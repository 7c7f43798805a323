package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// twice calls f with the fast paths on and with them off.
func twice(f func(fast int)) {
	had := SetFast(true)
	defer SetFast(had)
	f(1)
	SetFast(false)
	f(0)
}

// Quantisers with their fast paths read and write the same bytes as without, at every length and
// alignment, and write nowhere else; foreign bytes are refused at the same place.
func TestFastQuantisersArePlain(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, q := range quantisers {
		t.Run(q.name, func(t *testing.T) {
			for i := range 400 {
				n := i
				if i > 140 {
					n = r.IntN(2300)
				}
				compareQuantiser(t, r, q, n)
			}
		})
	}
}

func compareQuantiser(t *testing.T, r *rand.Rand, q quantiser, n int) {
	t.Helper()
	in := newInput(r, 1, n)
	begin, size := 32+r.IntN(32), q.size(n)
	var encoded [2][]byte
	twice(func(fast int) {
		encoded[fast] = bytes.Repeat([]byte{0xa5}, begin+size+32)
		q.encode(encoded[fast][begin:][:size], in.x[0])
	})
	if !bytes.Equal(encoded[0], encoded[1]) {
		t.Fatalf("%d elements: encoded to\n%x, plain\n%x", n, encoded[1], encoded[0])
	}
	enc := encoded[0][begin:][:size]
	if size > 0 && r.IntN(3) == 0 {
		enc[r.IntN(size)] ^= byte(1 + r.IntN(255))
	}
	for _, e := range [][]byte{enc, randomBytes(r, size)} {
		compareDecoders(t, r, q, n, e)
	}
}

func compareDecoders(t *testing.T, r *rand.Rand, q quantiser, n int, enc []byte) {
	t.Helper()
	at := 16 + r.IntN(16)
	var decoded [2][]float32
	var bad [2]int
	twice(func(fast int) {
		decoded[fast] = make([]float32, at+n+16)
		bad[fast] = q.decode(decoded[fast][at:][:n], enc)
	})
	if bad[0] != bad[1] {
		t.Fatalf("%d elements: refused at %d, plain at %d", n, bad[1], bad[0])
	}
	for j, v := range decoded[1] {
		if !sameBits(v, decoded[0][j]) {
			t.Fatalf("%d elements: %d is %v, plain %v", n, j-at, v, decoded[0][j])
		}
	}
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// A quantiser's integers are of magnitude up to steps: of no other may the fast path lose count.
func TestFastDecodersCountEveryInteger(t *testing.T) {
	for at := range 64 {
		for v := range 256 {
			q := make([]byte, 64)
			q[at] = byte(v)
			var most [2]int32
			twice(func(fast int) {
				x := make([]float32, 64)
				i, m := fromInt8Fast(x, q, 1)
				for _, b := range q[i:] {
					m = max(m, int32(int8(b)), -int32(int8(b)))
				}
				most[fast] = m
			})
			if want := max(int32(int8(v)), -int32(int8(v))); most != [2]int32{want, want} {
				t.Fatal(fmt.Sprint(at, v, most, want))
			}
		}
	}
}
