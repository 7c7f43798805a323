package modelfile

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/hffolder"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// Imported says what a Hugging Face folder holds.
type Imported struct {
	ModelType string   `json:"model_type"`
	Elements  uint64   `json:"parameters"`
	Tensors   int      `json:"tensors"`
	Tied      int      `json:"tied"`   // matrices that stand in the folder a second time
	DTypes    []string `json:"dtypes"` // as safetensors names them
}

// Import checks a Hugging Face folder and, if out is not empty, writes its weights to that file,
// in float32, tied matrices once.
func Import(ctx context.Context, folder, out string, replace bool) (Imported, error) {
	if _, err := os.Stat(out); out != "" && err == nil && !replace {
		return Imported{}, fmt.Errorf("init: %s exists: choose another name, or replace it with --force", out)
	}
	if out != "" {
		if err := within(out); err != nil {
			return Imported{}, fmt.Errorf("init: %w", err)
		}
	}
	f, err := hffolder.Open(ctx, folder)
	if err != nil {
		return Imported{}, fmt.Errorf("init: %w", err)
	}
	defer f.Close()
	layout, err := f.Layout()
	if err != nil {
		return Imported{}, fmt.Errorf("init: %w", err)
	}
	m := Imported{
		ModelType: f.Config.ModelType, Elements: layout.Elements(), Tensors: len(layout),
		Tied: len(f.Tensors) - len(layout),
	}
	for _, t := range f.Tensors {
		if !slices.Contains(m.DTypes, string(t.DType)) {
			m.DTypes = append(m.DTypes, string(t.DType))
		}
	}
	if out == "" {
		return m, nil
	}
	values := make([]float32, layout.Elements())
	if err := f.Read(values, layout); err != nil {
		return m, fmt.Errorf("init: %w", err)
	}
	err = disk.WriteWhole(ctx, out, replace, func(w io.Writer) error {
		return safetensors.Write(w, map[string]string{"format": "pt"},
			safetensors.Vector{Layout: layout, Values: values})
	})
	if err != nil {
		return m, fmt.Errorf("init: %w", err)
	}
	return m, nil
}
