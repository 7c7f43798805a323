package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Vector is a flat vector, and the tensors that it is made of.
type Vector struct {
	Prefix string      // of the tensors' names in the file
	Layout slot.Layout // in flat order
	Values []float32   // Layout.Elements() of them
}

const (
	metadataKey = "__metadata__"
	alignment   = 8 // of the data in the file, as the reference implementation has it
)

// Write writes vectors, one after the other, in float32. It copies none of them: they go out as
// they lie in memory, on hosts whose floats lie as the file has them. It refuses names that occur
// twice, and vectors that are not as long as their layouts.
func Write(w io.Writer, metadata map[string]string, vectors ...Vector) error {
	head, err := header(metadata, vectors)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, v := range vectors {
		if err := writeVector(w, v); err != nil {
			return err
		}
	}
	return nil
}

// entry is what a header says of a tensor.
type entry struct {
	DType   DType     `json:"dtype"`
	Shape   []uint64  `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// header is everything in front of the data.
func header(metadata map[string]string, vectors []Vector) ([]byte, error) {
	entries, at := map[string]any{metadataKey: metadata}, uint64(0)
	for _, v := range vectors {
		if v.Layout.Elements() != uint64(len(v.Values)) {
			return nil, fmt.Errorf("safetensors: %d values for a layout of %d", len(v.Values), v.Layout.Elements())
		}
		for _, t := range v.Layout {
			name, end := v.Prefix+t.Name, at+sizes[F32]*t.Elements()
			if entries[name] != nil {
				return nil, fmt.Errorf("%w: %q", ErrDuplicate, name)
			}
			entries[name] = entry{F32, append([]uint64{}, t.Shape...), [2]uint64{at, end}}
			at = end
		}
	}
	if len(metadata) == 0 {
		delete(entries, metadataKey)
	}
	b, err := json.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	for len(b)%alignment != 0 {
		b = append(b, ' ')
	}
	if len(b) > MaxHeader {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrHeader, len(b), MaxHeader)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b), nil
}

// writeVector writes a vector's values, in pieces.
func writeVector(w io.Writer, v Vector) error {
	const most = 1 << 18 // elements of a piece; also the copy where the host's floats lie otherwise
	for at := 0; at < len(v.Values); at += most {
		if _, err := w.Write(kernel.Bytes(v.Values[at:min(at+most, len(v.Values))])); err != nil {
			return err
		}
	}
	return nil
}
