package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Match lists all differences between the file and a layout: tensors that are missing, have another
// shape, or are not in the layout. The names in the file may lack the first part ("transformer.",
// "model."), as those of a model without its head do, or have one prefix more than the layout's.
// What is no parameter is in LeftOut then: tensors of whole numbers, what old versions of
// transformers saved beside the parameters, and matrices that equal one of the layout's, because
// the model has it once.
func (f *File) Match(layout slot.Layout) error {
	f.prefix, f.LeftOut = "", nil
	_, plain := f.lacks(layout)
	found := f.prefixes(layout)
	switch {
	case plain && len(found) == 1:
		f.prefix = found[0]
	case plain && len(found) > 1:
		return fmt.Errorf("the file holds this model %d times, under the prefixes %.300q: leave one of them in it",
			len(found), found)
	}
	errs, _ := f.lacks(layout)
	wanted := map[string]bool{}
	for _, t := range layout {
		have, _ := f.find(t.Name)
		wanted[have.Name] = true
	}
	for _, t := range f.Tensors {
		switch {
		case wanted[t.Name]:
		case !t.DType.Readable() || isBuffer(t) || f.tied(t, layout):
			f.LeftOut = append(f.LeftOut, t.Name)
		default:
			errs = append(errs, fmt.Errorf("tensor %.300q %v is not in the layout", t.Name, t.Shape))
		}
	}
	return errors.Join(errs...)
}

// lacks lists what of a layout is missing or different. missing: some name is not there.
func (f *File) lacks(layout slot.Layout) (errs []error, missing bool) {
	for _, t := range layout {
		have, ok := f.find(t.Name)
		switch {
		case !ok:
			missing = true
			errs = append(errs, fmt.Errorf("tensor %q %v is missing", t.Name, t.Shape))
		case !slices.Equal(have.Shape, t.Shape):
			errs = append(errs, fmt.Errorf("tensor %q is %v in the file and %v in the layout", t.Name, have.Shape,
				t.Shape))
		case !have.DType.Readable():
			errs = append(errs, fmt.Errorf("tensor %.300q is of type %s, and F32, BF16 and F16 can be read: save the "+
				"model in one of them", t.Name, have.DType))
		}
	}
	return errs, missing
}

// prefixes are those under which the file holds all tensors of a layout.
func (f *File) prefixes(layout slot.Layout) (found []string) {
	for _, t := range f.Tensors {
		if len(layout) == 0 {
			return nil
		}
		prefix, ok := strings.CutSuffix(t.Name, "."+layout[0].Name)
		if ok && !slices.ContainsFunc(layout, func(t slot.Tensor) bool {
			i, ok := f.byName[prefix+"."+t.Name]
			return !ok || !slices.Equal(f.Tensors[i].Shape, t.Shape)
		}) {
			found = append(found, prefix+".")
		}
	}
	return found
}

// Renamed gives, of a layout that the file has, the first name that is another one there, and
// which; "" if all names are the layout's.
func (f *File) Renamed(layout slot.Layout) (name, there string) {
	for _, t := range layout {
		if have, ok := f.find(t.Name); ok && have.Name != t.Name {
			return t.Name, have.Name
		}
	}
	return "", ""
}

// find finds what the layout calls by a name.
func (f *File) find(name string) (Tensor, bool) {
	i, ok := f.byName[f.prefix+name]
	if body, rest, dotted := strings.Cut(name, "."); !ok && dotted && !f.bodies[body] {
		i, ok = f.byName[rest]
	}
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// isBuffer says whether a tensor is no parameter, but what old versions of transformers computed
// and saved beside them: the causal mask of GPT-2 and its relatives, or rotary frequencies.
func isBuffer(t Tensor) bool {
	return strings.HasSuffix(t.Name, ".attn.bias") && len(t.Shape) == 4 ||
		strings.HasSuffix(t.Name, ".attention.bias") && len(t.Shape) == 4 ||
		strings.HasSuffix(t.Name, ".masked_bias") && t.Elements() == 1 ||
		strings.HasSuffix(t.Name, ".rotary_emb.inv_freq")
}

// tied says whether a matrix equals one of the layout's, byte by byte. Equal biases and norms prove
// nothing.
func (f *File) tied(t Tensor, layout slot.Layout) bool {
	return len(t.Shape) == 2 && slices.ContainsFunc(layout, func(l slot.Tensor) bool {
		have, ok := f.find(l.Name)
		return ok && have.DType == t.DType && slices.Equal(have.Shape, t.Shape) && equal(f.raw(t), f.raw(have))
	})
}

// raw is the bytes of a tensor as they stand in the file.
func (f *File) raw(t Tensor) io.Reader {
	return io.NewSectionReader(f.data, int64(t.begin), int64(t.end-t.begin))
}

// equal compares two readers of the same length, up to the first difference.
func equal(a, b io.Reader) bool {
	one, other := make([]byte, 1<<12), make([]byte, 1<<12)
	for {
		n, err := io.ReadFull(a, one)
		m, _ := io.ReadFull(b, other)
		if !bytes.Equal(one[:n], other[:m]) {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}
