package hostile

import (
	"encoding/binary"
	"math"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Values returns the values of a contribution of codec f32.
func Values(c *allreduce.Contribution) []float32 {
	return floatsOf(c.Bytes())
}

func floatsOf(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

func bytesOf(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// Commit puts values into a contribution of codec f32, with hashes and norms that fit.
func Commit(c *allreduce.Contribution, x []float32) {
	b := c.Bytes()
	copy(b, bytesOf(x))
	frame := frameBytes(c)
	for f, hash := range slot.FrameHashes(b, frame) {
		part := x[f*frame/4 : min(len(x), (f+1)*frame/4)]
		c.Leaves()[f] = slot.FrameLeaf{NormSq: kernel.NormSq(part), Hash: hash}
	}
	c.Recommit()
}

// frameBytes is the size of a contribution's frames: a power of two.
func frameBytes(c *allreduce.Contribution) int {
	frame := 4
	for (len(c.Bytes())+frame-1)/frame > len(c.Leaves()) {
		frame *= 2
	}
	return frame
}
