package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

// header is everything in front of the data.
func header(metadata map[string]string, vectors []Vector) ([]byte, error) {
	b := append(make([]byte, 8), '{')
	b = appendMetadata(b, metadata)
	seen, at := map[string]bool{metadataKey: true}, uint64(0)
	for _, v := range vectors {
		if v.Layout.Elements() != uint64(len(v.Values)) {
			return nil, fmt.Errorf("safetensors: %d values for a layout of %d", len(v.Values), v.Layout.Elements())
		}
		for _, t := range v.Layout {
			name := v.Prefix + t.Name
			if seen[name] {
				return nil, fmt.Errorf("%w: %q", ErrDuplicate, name)
			}
			seen[name] = true
			end := at + F32.bytes()*t.Elements()
			b = appendTensor(b, name, t.Shape, at, end)
			at = end
		}
	}
	b = append(b, '}')
	for len(b)%alignment != 0 {
		b = append(b, ' ')
	}
	if len(b)-8 > MaxHeader {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrHeader, len(b)-8, MaxHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, nil
}

func appendMetadata(b []byte, metadata map[string]string) []byte {
	if len(metadata) == 0 {
		return b
	}
	b = append(appendString(b, metadataKey), ":{"...)
	for i, k := range slices.Sorted(maps.Keys(metadata)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendString(b, metadata[k])
	}
	return append(b, '}')
}

func appendTensor(b []byte, name string, shape []uint64, begin, end uint64) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = fmt.Appendf(appendString(b, name), `:{"dtype":"%s","shape":[`, F32)
	for i, d := range shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, d)
	}
	return fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, begin, end)
}

func appendString(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		panic("safetensors: a string has no JSON: " + err.Error())
	}
	return append(b, q...)
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
