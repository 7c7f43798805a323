package hffolder

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Matrices that are not equal differ in their first bytes, as a rule. A model has many of one
// shape: each pair is compared, and only their heads are read for that, once.
const (
	headBytes    = 4 << 10
	compareBytes = 256 << 10
)

// twin is the name of the layout's matrix that has the elements of t, bit by bit; "" is none.
func (f *Folder) twin(t safetensors.Tensor, layout slot.Layout) (string, error) {
	if len(t.Shape) != 2 || !t.DType.Readable() {
		return "", nil // equal biases and norms prove nothing
	}
	for _, l := range layout {
		have, ok := f.tensor(l.Name)
		if !ok || have.DType != t.DType || !slices.Equal(have.Shape, t.Shape) {
			continue
		}
		same, err := f.sameHead(t.Name, have.Name)
		if err == nil && same {
			same, err = equal(f.in[t.Name].Raw(t.Name), f.in[have.Name].Raw(have.Name))
		}
		if err != nil || same {
			return l.Name, err
		}
	}
	return "", nil
}

// sameHead says whether two tensors begin alike.
func (f *Folder) sameHead(a, b string) (bool, error) {
	one, err := f.head(a)
	if err != nil {
		return false, err
	}
	other, err := f.head(b)
	return bytes.Equal(one, other), err
}

// head is the first bytes of a tensor. They are kept.
func (f *Folder) head(name string) ([]byte, error) {
	if head, ok := f.heads[name]; ok {
		return head, nil
	}
	head, err := io.ReadAll(io.LimitReader(f.in[name].Raw(name), headBytes))
	if err != nil {
		return nil, err
	}
	if f.heads == nil {
		f.heads = map[string][]byte{}
	}
	f.heads[name] = head
	return head, nil
}

// equal compares two readers of the same length, up to the first difference.
func equal(a, b io.Reader) (bool, error) {
	one, other := make([]byte, compareBytes), make([]byte, compareBytes)
	for {
		n, err := io.ReadFull(a, one)
		m, otherErr := io.ReadFull(b, other)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !ended:
			return false, err
		case otherErr != nil && !ended:
			return false, otherErr
		case !bytes.Equal(one[:n], other[:m]):
			return false, nil
		case ended:
			return true, nil
		}
	}
}
