package hffolder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// The names of the files in a folder.
const (
	configName = "config.json"
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
	extension  = ".safetensors"
)

// Bounds on what is read whole.
const (
	maxConfig = 16 << 20
	maxIndex  = safetensors.MaxHeader
	maxShards = 10_000
)

// Folder is an open folder. Close it.
type Folder struct {
	Dir     string
	Config  Config
	Tensors []safetensors.Tensor // of all files, in the order of their names

	ctx   context.Context // reading ends with it
	file  string          // the only one, of OpenFile
	files []*os.File
	in    map[string]*safetensors.File // by the tensor's name
	heads map[string][]byte            // of tensors that were compared
}

// Open opens a folder and checks config.json, the index and the headers of all weights. Errors name
// the file, and what to do. When ctx ends, reading its weights fails, also later.
func Open(ctx context.Context, dir string) (*Folder, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is a file: name the folder that holds config.json")
	}
	if err != nil {
		return nil, fmt.Errorf("model folder %s: %w", dir, err)
	}
	f := &Folder{Dir: dir, ctx: ctx, in: map[string]*safetensors.File{}}
	if f.Config, err = readConfig(dir); err == nil {
		err = f.openWeights()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("model folder %s: %w", dir, err)
	}
	slices.SortFunc(f.Tensors, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return f, nil
}

// OpenFile opens one file of weights as a folder that has no config.json, so that Match and Read
// treat both alike. Tensors whose names begin with ignore are left out, if that is not empty.
func OpenFile(path, ignore string) (*Folder, error) {
	f := &Folder{ctx: context.Background(), in: map[string]*safetensors.File{}, file: path}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if _, err := f.openFile(path); err != nil {
		f.Close()
		return nil, err
	}
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool {
		return ignore != "" && strings.HasPrefix(t.Name, ignore)
	})
	slices.SortFunc(f.Tensors, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return f, nil
}

// where names what is open, in messages: with the path, and as one word.
func (f *Folder) where() (path, kind string) {
	if f.file != "" {
		return f.file, "file"
	}
	return "model folder " + f.Dir, "folder"
}

// Close closes the files of the weights.
func (f *Folder) Close() {
	for _, file := range f.files {
		file.Close() //nolint:errcheck // it was only read
	}
	f.files = nil
}

func (f *Folder) openWeights() error {
	_, single := os.Stat(filepath.Join(f.Dir, singleName))
	_, index := os.Stat(filepath.Join(f.Dir, indexName))
	switch {
	case single == nil && index == nil:
		return fmt.Errorf("it holds %s and %s, and they may be two models: remove one of them", singleName, indexName)
	case single == nil:
		_, err := f.openFile(singleName)
		return err
	case index == nil:
		return f.openShards()
	}
	if holds(f.Dir, "pytorch_model*.bin") {
		return errors.New("its weights are PyTorch pickles (pytorch_model.bin), which are not read, since they can " +
			"run code: load the model in transformers and save_pretrained() it, which writes " + singleName)
	}
	return fmt.Errorf("it holds neither %s nor %s: name the folder that save_pretrained() wrote", singleName, indexName)
}

// holds says whether a folder has a file whose name matches the pattern.
func holds(dir, pattern string) bool {
	found, err := fs.Glob(os.DirFS(dir), pattern)
	return err == nil && len(found) > 0
}

// openFile opens a file of weights and takes its tensors in.
func (f *Folder) openFile(name string) (*safetensors.File, error) {
	file, err := os.Open(filepath.Join(f.Dir, name))
	if errors.Is(err, fs.ErrNotExist) && f.file == "" {
		return nil, fmt.Errorf("%s names %s, which is not there: download the folder again", indexName, name)
	}
	if err != nil {
		return nil, err
	}
	f.files = append(f.files, file)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	weights, err := safetensors.Open(disk.ReaderUntil(f.ctx, file), info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, t := range weights.Tensors {
		if f.in[t.Name] != nil {
			return nil, fmt.Errorf("%s: tensor %.300q is in another file, too: download the folder again", name, t.Name)
		}
		f.in[t.Name] = weights
	}
	f.Tensors = append(f.Tensors, weights.Tensors...)
	return weights, nil
}

// index is the part of model.safetensors.index.json that is read.
type index struct {
	WeightMap map[string]string `json:"weight_map"`
}

// openShards opens the files that the index names. Index and files must say the same.
func (f *Folder) openShards() error {
	text, err := disk.Read(disk.OS, filepath.Join(f.Dir, indexName), maxIndex)
	if err != nil {
		return err
	}
	var of index
	if err := json.Unmarshal(text, &of); err != nil {
		return fmt.Errorf("%s: %w", indexName, err)
	}
	if len(of.WeightMap) == 0 {
		return fmt.Errorf("%s: its weight_map is empty or missing: it says which file holds which tensor", indexName)
	}
	byFile := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(of.WeightMap)) {
		file := of.WeightMap[name]
		if filepath.Base(file) != file || !strings.HasSuffix(file, extension) {
			return fmt.Errorf("%s: tensor %.300q is in %.300q: the name of a %s file in the same folder is allowed",
				indexName, name, file, extension)
		}
		byFile[file]++
	}
	if len(byFile) > maxShards {
		return fmt.Errorf("%s: it names %d files, at most %d are allowed", indexName, len(byFile), maxShards)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		if err := f.openShard(file, of.WeightMap, byFile[file]); err != nil {
			return err
		}
	}
	return nil
}

// openShard opens one file, which must hold those tensors that the index says, count of them.
func (f *Folder) openShard(file string, weightMap map[string]string, count int) error {
	weights, err := f.openFile(file)
	if err != nil {
		return err
	}
	for _, t := range weights.Tensors {
		if weightMap[t.Name] != file {
			return fmt.Errorf("%s holds tensor %.300q, and %s does not say so: download the folder again",
				file, t.Name, indexName)
		}
	}
	if count == len(weights.Tensors) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		if weightMap[name] == file && f.in[name] == nil {
			return fmt.Errorf("%s says that tensor %.300q is in %s, and it is not: download the folder again",
				indexName, name, file)
		}
	}
	return nil
}
