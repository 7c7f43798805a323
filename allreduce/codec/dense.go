package codec

import "github.com/p2pdiloco/p2pdiloco/internal/kernel"

// The dense codecs. All but f32 lose something. Their bytes are those of the kernels
// (internal/kernel/quant.go); docs/spec/reduction.md has the formats.
const (
	F32  = "f32"  // little-endian IEEE-754: 4 bytes an element
	BF16 = "bf16" // the upper half of each float32: 2 bytes an element
	Int8 = "int8" // blocks of 256 with a common scale: 1.015625 bytes an element
	Int4 = "int4" // blocks of 256 with a common scale: 0.515625 bytes an element
	// blocks of 1024, of which the mean magnitude and the signs are left: 0.12890625 bytes an
	// element
	Sign = "sign"
)

// total decodes any bytes: each are some value's.
func total(decode func([]float32, []byte)) func([]float32, []byte) (int, string) {
	return func(dst []float32, src []byte) (int, string) {
		decode(dst, src)
		return -1, ""
	}
}

// blockwise is a codec whose decoder refuses blocks that no encoder writes.
func blockwise(name string, b kernel.Blocks, growth float64) Codec {
	decode := func(dst []float32, src []byte) (int, string) { return b.Decode(dst, src), "no encoder writes it" }
	return Codec{name, b.Elements, 0, growth, 1, b.Size, b.Encode, decode}
}

func f32Size(elements int) int            { return 4 * elements }
func encodeF32(dst []byte, src []float32) { copy(dst, kernel.Bytes(src)) }

// growthBF16 is that of values that become greater by 2^-8.
const growthBF16 = (1 + 0x1p-8) * (1 + 0x1p-8)

// rounded is the growth of int8 and int4: a block's greatest value becomes L = 127 or 7 steps; of
// the other 255 each rounds to some integer r, and up from no less than r - 1/2. The sum of r^2
// over that of the values' squares is greatest where all have the same r:
// (255 r^2 + L^2) / (255 (r-1/2)^2 + L^2). It is 1.065 for int8, with r = 8, and 2.70 for int4,
// with r = 1.
func rounded(steps float64) (most float64) {
	const others = kernel.QuantBlock - 1
	for r := 1.0; r <= steps; r++ {
		most = max(most, (others*r*r+steps*steps)/(others*(r-.5)*(r-.5)+steps*steps))
	}
	return most
}
