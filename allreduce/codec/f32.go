package codec

import "github.com/p2pdiloco/p2pdiloco/internal/kernel"

// F32 names the codec that loses nothing: little-endian IEEE-754, 4 bytes an element.
const F32 = "f32"

type f32 struct{}

func (f32) Name() string                            { return F32 }
func (f32) Block() int                              { return 1 }
func (f32) Lossy() bool                             { return false }
func (f32) Growth() float64                         { return 1 }
func (f32) Feedback() float32                       { return 1 }
func (f32) EncodedSize(elements int) int            { return 4 * elements }
func (f32) Append(dst []byte, src []float32) []byte { return append(dst, kernel.Bytes(src)...) }

func (c f32) Decode(dst []float32, src []byte) error {
	if err := checkSize(c, len(dst), src); err != nil {
		return err
	}
	kernel.GetFloat32s(dst, src)
	return nil
}
