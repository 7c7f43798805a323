package modelfile

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/hffolder"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// FixInitial returns the given spec with the root of the state that a file of initial parameters
// makes, so that all founders must have the same file. The root depends on how many vectors the
// outer optimizer has, so that is settled with it.
func FixInitial(given spec.Spec, path string) (spec.Spec, error) {
	given.Outer = given.Settled().Outer
	root, err := replica.InitialRoot(given.Settled().OuterConfig(), given.Layout.Elements(),
		func(anchor []float32) error {
			return ReadInitial(path, given.Layout, anchor, slog.New(slog.DiscardHandler))
		})
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

// ReadInitial fills dst with the layout's tensors from a .safetensors file or, if path begins with
// FolderPrefix, from a Hugging Face folder. Both may have the names of a model without its head.
func ReadInitial(path string, layout trainer.Layout, dst []float32, logger *slog.Logger) error {
	m, err := openInitial(path)
	if err != nil {
		return fmt.Errorf("initial parameters (--init %s): %w", path, err)
	}
	defer m.Close()
	if err := m.Match(layout); err != nil {
		return fmt.Errorf("initial parameters: %s does not hold this model (give the trainer the file's sizes, or "+
			"another file):\n%w", path, err)
	}
	if name, there := m.Renamed(layout); name != "" {
		logger.Info("the initial parameters are those of a model without its head: their names lack the first part",
			"from", path, "tensor", name, "is there", there)
	}
	if err := m.Read(dst, layout); err != nil {
		return fmt.Errorf("initial parameters: %s: %w", path, err)
	}
	return nil
}

func openInitial(path string) (*hffolder.Folder, error) {
	if dir, ok := strings.CutPrefix(path, FolderPrefix); ok {
		return hffolder.Open(context.Background(), dir)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: name a .safetensors file, or a Hugging Face folder as %s%s", path,
			FolderPrefix, path)
	}
	return hffolder.OpenFile(path, outerPrefix) // without what Export added with Momentum
}
