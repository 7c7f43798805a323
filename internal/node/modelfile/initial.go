package modelfile

import (
	"fmt"
	"os"

	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// FixInitial returns the given spec with the root of the state that a file of initial parameters
// makes, so that all founders must have the same file. The root depends on how many vectors the
// outer optimizer has, so that is settled with it.
func FixInitial(given spec.Spec, path string) (spec.Spec, error) {
	given.Outer = given.Settled().Outer
	root, err := replica.InitialRoot(given.Settled().OuterConfig(), given.Layout.Elements(),
		func(anchor []float32) error { return ReadInitial(path, given.Layout, anchor) })
	if err != nil {
		return given, err
	}
	init := "root:" + root.String()
	if given.Init != "" && given.Init != init {
		return given, &spec.Error{
			Field: "init", Here: given.Init,
			Why: fmt.Sprintf("the state that %s makes is %s", path, init),
		}
	}
	given.Init = init
	return given, nil
}

// ReadInitial fills dst with the layout's tensors from a .safetensors file. It passes over what
// Export added with ExportConfig.Momentum.
func ReadInitial(path string, layout trainer.Layout, dst []float32) error {
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
		return fmt.Errorf("initial parameters: %s does not hold this model (give the trainer the file's sizes, or "+
			"another file):\n%w", path, err)
	}
	if err := m.Read(dst, layout); err != nil {
		return fmt.Errorf("initial parameters: %s: %w", path, err)
	}
	return nil
}
