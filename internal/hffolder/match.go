package hffolder

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Match lists all differences between the folder, or file, and a layout. A matrix that equals one
// of the layout's, element by element, and is not in the layout itself is no difference if
// config.json lets it be tied: the model has it once. Nor are buffers that older versions of
// transformers saved, nor that the folder is one of a model without its head: it lacks the
// "transformer." or "model." with which all names of the layout begin that are of the body.
func (f *Folder) Match(layout slot.Layout) error {
	var errs []error
	_, kind := f.where()
	wanted := map[string]bool{}
	for _, t := range layout {
		have, ok := f.tensor(t.Name)
		wanted[have.Name] = true
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("tensor %q %v is missing", t.Name, t.Shape))
		case !slices.Equal(have.Shape, t.Shape):
			errs = append(errs, fmt.Errorf("tensor %q is %v in the %s and %v in the layout", t.Name, have.Shape,
				kind, t.Shape))
		case !have.DType.Readable():
			errs = append(errs, unreadable(have))
		}
	}
	for _, t := range f.Tensors {
		if wanted[t.Name] || isBuffer(t) {
			continue
		}
		if err := f.explain(t, layout); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unreadable says what to do about a parameter that is no number of a kind that can be read.
func unreadable(t safetensors.Tensor) error {
	return fmt.Errorf("tensor %.300q is of type %s, and F32, BF16 and F16 can be read: save the model in one of them",
		t.Name, t.DType)
}

// explain returns nil for a tensor that is tied to one of the layout, else why it is too many.
func (f *Folder) explain(t safetensors.Tensor, layout slot.Layout) error {
	unknown := fmt.Errorf("tensor %.300q %v is not in the layout", t.Name, t.Shape)
	twin, err := f.twin(t, layout)
	switch {
	case err != nil:
		return errors.Join(unknown, err)
	case twin == "":
		return unknown
	case f.Config.Tied != nil && !*f.Config.Tied:
		return fmt.Errorf("%w; it equals %q, but %s says that they are not tied (tie_word_embeddings is false): "+
			"tie them in both places or in none", unknown, twin, configName)
	}
	return nil
}

// Layout is that of a model which has exactly the folder's tensors but the buffers, in the order of
// their names; of two tied matrices it has one.
func (f *Folder) Layout() (slot.Layout, error) {
	var layout slot.Layout
	for _, t := range f.Tensors {
		if isBuffer(t) {
			continue
		}
		if !t.DType.Readable() {
			return nil, unreadable(t)
		}
		if f.Config.Tied == nil || *f.Config.Tied {
			twin, err := f.twin(t, layout)
			if err != nil {
				return nil, err
			}
			if twin != "" {
				continue
			}
		}
		layout = append(layout, slot.Tensor{Name: t.Name, Shape: t.Shape})
	}
	return layout, nil
}

// Read fills dst, layout.Elements() values, with the layout's tensors, which the folder must have
// (Match).
func (f *Folder) Read(dst []float32, layout slot.Layout) error {
	path, _ := f.where()
	for _, t := range layout {
		have, ok := f.tensor(t.Name)
		n := t.Elements()
		if !ok || uint64(len(dst)) < n {
			return fmt.Errorf("%s: tensor %q does not match", path, t.Name)
		}
		if err := f.in[have.Name].ReadTensor(dst[:n], have.Name); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		dst = dst[n:]
	}
	return nil
}

// Renamed gives, of a layout that the folder has, the first name that stands there without its
// first part, and what it is there; "" if all names are the layout's.
func (f *Folder) Renamed(layout slot.Layout) (name, there string) {
	for _, t := range layout {
		if have, ok := f.tensor(t.Name); ok && have.Name != t.Name {
			return t.Name, have.Name
		}
	}
	return "", ""
}

// tensor finds what the layout calls by a name.
func (f *Folder) tensor(name string) (safetensors.Tensor, bool) {
	t, ok := f.named(name)
	if body, rest, dotted := strings.Cut(name, "."); !ok && dotted && !f.begins(body+".") {
		return f.named(rest)
	}
	return t, ok
}

func (f *Folder) named(name string) (safetensors.Tensor, bool) {
	i, ok := f.search(name)
	if !ok {
		return safetensors.Tensor{}, false
	}
	return f.Tensors[i], true
}

// begins says whether the name of any tensor begins so.
func (f *Folder) begins(prefix string) bool {
	i, _ := f.search(prefix)
	return i < len(f.Tensors) && strings.HasPrefix(f.Tensors[i].Name, prefix)
}

func (f *Folder) search(name string) (int, bool) {
	return slices.BinarySearchFunc(f.Tensors, name,
		func(t safetensors.Tensor, name string) int { return strings.Compare(t.Name, name) })
}

// isBuffer says whether a tensor is no parameter, but what old versions of transformers computed
// and saved beside them: the causal mask of GPT-2 and its relatives, or rotary frequencies.
func isBuffer(t safetensors.Tensor) bool {
	return strings.HasSuffix(t.Name, ".attn.bias") && len(t.Shape) == 4 ||
		strings.HasSuffix(t.Name, ".attention.bias") && len(t.Shape) == 4 ||
		strings.HasSuffix(t.Name, ".masked_bias") && t.Elements() == 1 ||
		strings.HasSuffix(t.Name, ".rotary_emb.inv_freq")
}
