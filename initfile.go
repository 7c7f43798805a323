package p2pdiloco

import (
	"fmt"
	"os"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// withInitFile puts the root of the state that Config.InitFile makes into the spec, so that all founders must have the same
// file. The root depends on how many vectors the outer optimizer has, so that is given with it.
func (c Config) withInitFile() (Config, error) {
	if c.InitFile == "" {
		return c, nil
	}
	c.Spec.Outer = c.Spec.Settled().Outer
	s, err := newState(c.Spec.Settled())
	if err != nil {
		return c, err
	}
	vectors := s.vectors()
	if err := readInitFile(c.InitFile, c.Spec.Layout, vectors[0]); err != nil {
		return c, err
	}
	init := "root:" + checkpoint.StateRoot(0, vectors...).String()
	if c.Spec.Init != "" && c.Spec.Init != init {
		return c, &SpecError{Field: "init", Here: c.Spec.Init, Why: fmt.Sprintf("the state that %s makes is %s", c.InitFile, init)}
	}
	c.Spec.Init = init
	return c, nil
}

// readInitFile fills dst with the layout's tensors from a .safetensors file. What Export added with ExportConfig.Momentum is passed over.
func readInitFile(path string, layout Layout, dst []float32) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("initial parameters: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("initial parameters: %w", err)
	}
	m, err := safetensors.Open(f, info.Size())
	if err != nil {
		return fmt.Errorf("initial parameters: %s: %w", path, err)
	}
	if err := m.Match(layout, outerPrefix); err != nil {
		return fmt.Errorf("initial parameters: %s does not hold this model (give the trainer the file's sizes, or another file):\n%w", path, err)
	}
	if err := m.Read(dst, layout); err != nil {
		return fmt.Errorf("initial parameters: %s: %w", path, err)
	}
	return nil
}
