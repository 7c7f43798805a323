package hffolder

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// counted counts the bytes that are read.
type counted struct {
	io.ReaderAt
	bytes int
}

func (c *counted) ReadAt(b []byte, at int64) (int, error) {
	c.bytes += len(b)
	return c.ReaderAt.ReadAt(b, at)
}

// A model has many matrices of one shape. Each is read for the others about once in all: all of
// them were read whole for each, 358 GB for a model of 18.
func TestEqualShapesAreNotReadForEachOther(t *testing.T) {
	const matrices, rows, columns = 64, 128, 128
	var layout slot.Layout
	var values []float32
	for i := range matrices {
		layout = append(layout, slot.Tensor{Name: fmt.Sprintf("w%02d", i), Shape: []uint64{rows, columns}})
		for j := range rows * columns {
			values = append(values, float32(i%(matrices-1)*rows*columns+j)) // the last is the first
		}
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, nil, safetensors.Vector{Layout: layout, Values: values}); err != nil {
		t.Fatal(err)
	}
	r := &counted{ReaderAt: bytes.NewReader(file.Bytes())}
	weights, err := safetensors.Open(r, int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	f := &Folder{Tensors: weights.Tensors, in: map[string]*safetensors.File{}}
	for _, tensor := range weights.Tensors {
		f.in[tensor.Name] = weights
	}
	got, err := f.Layout()
	if err != nil || len(got) != matrices-1 {
		t.Errorf("%d matrices, %v", len(got), err)
	}
	if r.bytes > 2*file.Len() {
		t.Errorf("%d bytes were read of a file of %d", r.bytes, file.Len())
	}
}
