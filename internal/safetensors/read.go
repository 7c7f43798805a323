package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// File is an open file with a valid header.
type File struct {
	Metadata map[string]string
	Tensors  []Tensor // in the order of their bytes
	LeftOut  []string // names that the last Match found to be of no parameters

	data   *io.SectionReader
	byName map[string]int
	bodies map[string]bool // first parts of the names
	prefix string          // of the layout's names in the file
}

// Open reads and checks the header of a file of size bytes. Errors wrap one of the Err values
// above, or the reader's. The file is read when its tensors are; closing it is up to the caller.
func Open(r io.ReaderAt, size int64) (*File, error) {
	head, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	at := int64(8 + len(head))
	f := &File{data: io.NewSectionReader(r, at, size-at), byName: map[string]int{}, bodies: map[string]bool{}}
	if f.Metadata, f.Tensors, err = parse(head, uint64(size-at)); err != nil {
		return nil, err
	}
	for i, t := range f.Tensors {
		f.byName[t.Name] = i
		body, _, dotted := strings.Cut(t.Name, ".")
		f.bodies[body] = f.bodies[body] || dotted
	}
	return f, nil
}

// Read fills dst, layout.Elements() values, with the layout's tensors, which the file must have
// (Match).
func (f *File) Read(dst []float32, layout slot.Layout) error {
	for _, t := range layout {
		n := t.Elements()
		have, ok := f.find(t.Name)
		if !ok || have.Elements() != n || uint64(len(dst)) < n {
			return fmt.Errorf("safetensors: tensor %q does not match", t.Name)
		}
		if err := f.readTensor(dst[:n], have); err != nil {
			return fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
		}
		dst = dst[n:]
	}
	return nil
}

const bufferBytes = 1 << 18

func (f *File) readTensor(dst []float32, t Tensor) error {
	if !t.DType.Readable() {
		return fmt.Errorf("%w %s: F32, BF16 and F16 can be read", ErrDType, t.DType)
	}
	r := f.raw(t)
	if t.DType == F32 {
		_, err := io.ReadFull(r, kernel.Bytes(dst))
		return err
	}
	const size = 2
	buf := make([]byte, min(bufferBytes, size*len(dst)))
	for len(dst) > 0 {
		n := min(len(dst), len(buf)/size)
		if _, err := io.ReadFull(r, buf[:n*size]); err != nil {
			return err
		}
		if t.DType == BF16 {
			kernel.DecodeBF16(dst[:n], buf[:n*size])
		} else {
			for i := range n {
				dst[i] = fromHalf(binary.LittleEndian.Uint16(buf[size*i:]))
			}
		}
		dst = dst[n:]
	}
	return nil
}

// fromHalf is the value of an IEEE 754 binary16.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
	}
	v := float32(frac) / (1 << 24) // subnormal, or zero: exact
	return math.Float32frombits(sign | math.Float32bits(v))
}
