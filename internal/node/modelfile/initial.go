package modelfile

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/hffolder"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
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

// FolderPrefix begins the name of a Hugging Face folder where a file of initial parameters could
// be named, too.
const FolderPrefix = "hf:"

// model is what initial parameters are read from.
type model interface {
	Match(layout slot.Layout) error
	Read(dst []float32, layout slot.Layout) error
}

// ReadInitial fills dst with the layout's tensors from a .safetensors file or, if path begins with
// FolderPrefix, from a Hugging Face folder.
func ReadInitial(path string, layout trainer.Layout, dst []float32) error {
	m, done, err := openInitial(path)
	if err != nil {
		return fmt.Errorf("initial parameters: %w", err)
	}
	defer done()
	if err := m.Match(layout); err != nil {
		return fmt.Errorf("initial parameters: %s does not hold this model (give the trainer the file's sizes, or "+
			"another file):\n%w", path, err)
	}
	if err := m.Read(dst, layout); err != nil {
		return fmt.Errorf("initial parameters: %s: %w", path, err)
	}
	return nil
}

func openInitial(path string) (m model, done func(), err error) {
	if dir, ok := strings.CutPrefix(path, FolderPrefix); ok {
		f, err := hffolder.Open(dir)
		if err != nil {
			return nil, nil, err
		}
		return f, f.Close, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: name a .safetensors file, or a Hugging Face folder as %s%s", path,
			FolderPrefix, path)
	}
	var file *safetensors.File
	if err == nil {
		if file, err = safetensors.Open(f, info.Size()); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return exported{file}, func() { f.Close() }, nil //nolint:errcheck // it was only read
}

// exported is a model file. It passes over what Export added with ExportConfig.Momentum.
type exported struct{ *safetensors.File }

// Match is that of safetensors.File.
func (e exported) Match(layout slot.Layout) error { return e.File.Match(layout, outerPrefix) }
