package hffolder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ShardBytes is how large a file of weights becomes at most, unless one tensor is larger.
const ShardBytes = 5_000_000_000

// Output is a model to write.
type Output struct {
	Layout     slot.Layout
	Values     []float32 // Layout.Elements() of them
	Like       string    // the folder whose config.json and tokenizer are carried over
	DType      string    // float32, bfloat16 or float16; "" is that of each tensor in Like
	ShardBytes uint64    // 0 is ShardBytes
	Metadata   map[string]string
}

// Write makes the folder dir, which is there whole or not at all. It must not exist, or be empty.
// Every tensor of the layout is written once.
// When ctx ends it stops, and leaves nothing behind.
func Write(ctx context.Context, dir string, o Output) error {
	s, err := o.source(dir)
	if err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	temp, err := disk.TempDir(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // it is gone if it was renamed
	w := writer{ctx, temp}
	err = errors.Join(w.carry(s), w.writeWeights(o, s.dtypes), disk.OS.SyncDir(temp), ctx.Err())
	if err == nil {
		err = os.Rename(temp, dir)
	}
	if err != nil {
		return err
	}
	return disk.OS.SyncDir(filepath.Dir(dir))
}

// Check refuses what Write cannot write to dir, before the values are known.
func (o Output) Check(dir string) error {
	_, err := o.source(dir)
	return err
}

// source reads what the folder dir takes over, and checks that it can be made.
func (o Output) source(dir string) (source, error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return source{}, fmt.Errorf("%s exists and is not empty: choose another name", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return source{}, err
	}
	return newSource(o)
}

// writer writes the files of a folder until ctx ends.
type writer struct {
	ctx context.Context
	dir string
}

// entry is a tensor on its way into a file.
type entry struct {
	vector safetensors.Vector
	bytes  uint64
}

// shards cuts the model into files. Inside a file, tensors of four bytes an element come first, so
// that all of them are aligned.
func (o Output) shards(dtypes []safetensors.DType) [][]entry {
	most, at := cmp.Or(o.ShardBytes, ShardBytes), uint64(0)
	var files [][]entry
	var size uint64
	for i, t := range o.Layout {
		n := t.Elements()
		e := entry{safetensors.Vector{Layout: slot.Layout{t}, Values: o.Values[at : at+n], DType: dtypes[i]}, 2 * n}
		if dtypes[i] == safetensors.F32 {
			e.bytes = 4 * n
		}
		if len(files) == 0 || size > 0 && size+e.bytes > most {
			files, size = append(files, nil), 0
		}
		last := len(files) - 1
		files[last], size, at = append(files[last], e), size+e.bytes, at+n
	}
	for _, file := range files {
		slices.SortStableFunc(file, func(a, b entry) int {
			return cmp.Compare(width(a.vector.DType), width(b.vector.DType))
		})
	}
	return files
}

// width orders dtypes: the wider ones first.
func width(d safetensors.DType) int {
	if d == safetensors.F32 {
		return 0
	}
	return 1
}

// writeWeights writes model.safetensors, or several files and their index.
func (w writer) writeWeights(o Output, dtypes []safetensors.DType) error {
	files := o.shards(dtypes)
	if len(files) == 1 {
		return w.weights(o, singleName, files[0])
	}
	weightMap, total := map[string]string{}, uint64(0)
	for i, entries := range files {
		name := fmt.Sprintf("model-%05d-of-%05d%s", i+1, len(files), extension)
		if err := w.weights(o, name, entries); err != nil {
			return err
		}
		for _, e := range entries {
			weightMap[e.vector.Layout[0].Name] = name
			total += e.bytes
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"metadata":   map[string]any{"total_size": total},
		"weight_map": weightMap,
	}, "", "  ")
	if err != nil {
		return err
	}
	return w.file(indexName, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

func (w writer) weights(o Output, name string, entries []entry) error {
	vectors := make([]safetensors.Vector, len(entries))
	for i, e := range entries {
		vectors[i] = e.vector
	}
	return w.file(name, func(w io.Writer) error { return safetensors.Write(w, o.Metadata, vectors...) })
}

// file makes a file with the mode that new files of this user have, and waits until it is on the
// disk.
func (w writer) file(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(write(disk.Until(w.ctx, f)), f.Sync(), f.Close())
}
