package datadir

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

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

// FolderPrefix begins the name of a Hugging Face folder in Python (DiLoCo's init).
const FolderPrefix = "hf:"

// InsteadOfFolder says what to give to the commands, which know .safetensors files alone, instead
// of a Hugging Face folder.
func InsteadOfFolder(folder string) error {
	folder = strings.TrimPrefix(folder, FolderPrefix)
	return fmt.Errorf("%[1]s is a folder, and .safetensors files are read here: give --init "+
		"%[1]s/model.safetensors. Where there are several, python3 -m p2pdiloco.hf %[1]s MODEL.safetensors makes "+
		"one of them. A Python script gives init=\"hf:%[1]s\" to p2pdiloco.found()", folder)
}

// ReadInitial fills dst with the layout's tensors from a .safetensors file, which may have the
// names of a model without its head, or a prefix more. NaN and infinity are refused.
func ReadInitial(path string, layout trainer.Layout, dst []float32, logger *slog.Logger) error {
	file, size, err := openInitial(path)
	if err != nil {
		return fmt.Errorf("initial parameters (--init %s): %w", path, err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	m, err := safetensors.Open(file, size)
	if err != nil {
		return fmt.Errorf("initial parameters (--init %s): %w", path, err)
	}
	if err := m.Match(layout, outerPrefix); err != nil { // without what Export added with Momentum
		return fmt.Errorf("initial parameters: %s does not hold this model (give the trainer the file's sizes, or "+
			"another file):\n%w", path, err)
	}
	if name, there := m.Renamed(layout); name != "" {
		logger.Info("the names of the initial parameters differ by a prefix", "from", path, "tensor", name,
			"is there", there)
	}
	if len(m.LeftOut) > 0 {
		logger.Info("tensors that are no parameters are left out of the run", "from", path, "tensors", m.LeftOut)
	}
	if err := m.Read(dst, layout); err != nil {
		return fmt.Errorf("initial parameters: %s: %w", path, err)
	}
	if err := slot.NotFinite(layout, dst); err != nil {
		return fmt.Errorf("initial parameters: %s: %w: no run is founded from such a model", path, err)
	}
	return nil
}

func openInitial(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if strings.HasPrefix(path, FolderPrefix) || err == nil && info.IsDir() {
		return nil, 0, InsteadOfFolder(path)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return file, info.Size(), nil
}
