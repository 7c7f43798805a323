package hostile

import (
	"encoding/binary"

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
	_, _ = binary.Decode(b, binary.LittleEndian, x) // they are as many
	return x
}

func bytesOf(x []float32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, x) // floats have a size
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
