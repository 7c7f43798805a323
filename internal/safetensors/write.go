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

const (
	metadataKey = "__metadata__"
	alignment   = 8 // of the data in the file, as the reference implementation has it
)

// Write writes a flat vector, and the tensors that it is made of, in float32. It copies no values:
// they go out as they lie in memory, on hosts whose floats lie as the file has them. It refuses
// names that occur twice, and a vector that is not as long as its layout.
func Write(w io.Writer, metadata map[string]string, layout slot.Layout, values []float32) error {
	if layout.Elements() != uint64(len(values)) {
		return fmt.Errorf("safetensors: %d values for a layout of %d", len(values), layout.Elements())
	}
	head, err := header(metadata, layout)
	if err == nil {
		_, err = w.Write(head)
	}
	const most = 1 << 18 // elements of a piece; also the copy where the host's floats lie otherwise
	for piece := range slices.Chunk(values, most) {
		if err == nil {
			_, err = w.Write(kernel.Bytes(piece))
		}
	}
	return err
}

// entry is what a header says of a tensor.
type entry struct {
	DType   DType     `json:"dtype"`
	Shape   []uint64  `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// header is everything in front of the data.
func header(metadata map[string]string, layout slot.Layout) ([]byte, error) {
	entries, at := map[string]any{metadataKey: metadata}, uint64(0)
	for _, t := range layout {
		if entries[t.Name] != nil {
			return nil, fmt.Errorf("%w: %q", ErrDuplicate, t.Name)
		}
		end := at + sizes[F32]*t.Elements()
		entries[t.Name] = entry{F32, append([]uint64{}, t.Shape...), [2]uint64{at, end}}
		at = end
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
