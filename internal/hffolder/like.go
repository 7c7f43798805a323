package hffolder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// carried are the endings of files that go with a model: its configuration and its tokenizer.
var carried = []string{".json", ".txt", ".model", ".jinja"}

// source is what a folder takes over from the one that it is like.
type source struct {
	dir    string
	config []byte
	dtypes []safetensors.DType // of the layout's tensors
}

// newSource reads the folder that the output is like. Weights in it must be those of the layout,
// under the same names; it may be without weights.
func newSource(o Output) (source, error) {
	dtype, err := readDType(o.DType)
	if err != nil {
		return source{}, err
	}
	config, err := readConfig(o.Like)
	if err != nil {
		return source{}, fmt.Errorf("model folder %s: %w", o.Like, err)
	}
	s := source{dir: o.Like, config: config.Text, dtypes: make([]safetensors.DType, len(o.Layout))}
	var like *Folder
	if holds(o.Like, "*"+extension) {
		if like, err = Open(context.Background(), o.Like); err != nil {
			return source{}, err
		}
		defer like.Close()
		if err := like.Match(o.Layout); err != nil {
			return source{}, fmt.Errorf("model folder %s does not hold this run's model (name the folder that the run "+
				"began with):\n%w", o.Like, err)
		}
	}
	for i, t := range o.Layout {
		switch {
		case dtype != "":
			s.dtypes[i] = dtype
		case like != nil:
			have, _ := like.tensor(t.Name)
			s.dtypes[i] = have.DType
		default:
			s.dtypes[i] = config.tensors()
		}
	}
	if dtype != "" {
		if s.config, err = config.with(dtype); err != nil {
			return source{}, err
		}
	}
	_, err = s.files() // a link to nowhere among them
	return s, err
}

// readDType finds a dtype by transformers' name for it; "" is none.
func readDType(name string) (safetensors.DType, error) {
	for d, n := range names {
		if n == name {
			return d, nil
		}
	}
	if name != "" {
		return "", fmt.Errorf("dtype %q: float32, bfloat16 or float16 is allowed", name)
	}
	return "", nil
}

// carry writes config.json and the other files that go with the model.
func (w writer) carry(s source) error {
	err := w.file(configName, func(w io.Writer) error {
		_, err := w.Write(s.config)
		return err
	})
	if err != nil {
		return err
	}
	names, err := s.files()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := w.copy(filepath.Join(s.dir, name), name); err != nil {
			return err
		}
	}
	return nil
}

// files are the names of the files that go with the model, but config.json.
func (s source) files() (names []string, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if name == configName || strings.HasSuffix(name, ".index.json") ||
			!slices.Contains(carried, filepath.Ext(name)) {
			continue // one that is not carried may be anything, a link to nowhere, too
		}
		// caches are full of links: what a link names counts
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
}

func (w writer) copy(from, name string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	err = w.file(name, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
	return errors.Join(err, f.Close())
}
