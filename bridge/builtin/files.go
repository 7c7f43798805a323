package builtin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// maxFiles bounds the list of files. A folder with more is surely a mistake.
const maxFiles = 1 << 20

// file is a file of the corpus.
type file struct {
	path string // absolute, without symbolic links
	name string // below its root, with slashes
	hash uint64 // of name: decides the order and what is held out
}

// list finds the files, in the order of their hashes: when MaxBytes cuts the list, what is read is
// still a fair sample.
func (c CorpusConfig) list(ctx context.Context) ([]file, error) {
	roots, accept := c.Paths, func(string) bool { return true }
	if len(roots) == 0 {
		src, err := standardLibrary(ctx)
		if err != nil {
			return nil, err
		}
		roots = []string{src}
		accept = func(name string) bool { return strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, "cmd/") }
	}
	var files []file
	for _, root := range roots {
		found, err := listRoot(ctx, root, accept)
		if missing, ok := errors.AsType[*fs.PathError](err); ok && missing.Path == root &&
			errors.Is(err, fs.ErrNotExist) {
			err = fs.ErrNotExist // the root is named once
		}
		if err != nil {
			return nil, fmt.Errorf("--data %s: %w", root, err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: no files under %s: name text files or folders that hold some (--data)", ErrNoData,
			strings.Join(roots, ", "))
	}
	return sortFiles(files), nil
}

// sortFiles orders files by hash, and keeps a file that two roots reached under the name that sorts
// first.
func sortFiles(files []file) []file {
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.path, b.path),
			cmp.Compare(a.name, b.name))
	})
	files = slices.CompactFunc(files, func(a, b file) bool { return a.path == b.path })
	slices.SortStableFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash),
			cmp.Compare(a.name, b.name))
	})
	return files
}

// listRoot is the files at or below root whose names accept takes.
func listRoot(ctx context.Context, root string, accept func(name string) bool) (files []file, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		switch {
		case path != root && skipped(d):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			if f := newFile(root, path); accept(f.name) {
				files = append(files, f)
			}
		case path == root && !d.IsDir():
			return errors.New("neither a file nor a folder")
		}
		if len(files) > maxFiles {
			return fmt.Errorf("more than %d files: name a smaller folder", maxFiles)
		}
		return nil
	})
	return files, err
}

// skipped says whether a search skips an entry: hidden entries, and code that is not the project's
// own.
func skipped(d fs.DirEntry) bool {
	return strings.HasPrefix(d.Name(), ".") || d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor")
}

func newFile(root, path string) file {
	name, err := filepath.Rel(root, path)
	if err != nil || name == "." {
		name = filepath.Base(path)
	}
	name = filepath.ToSlash(name)
	sum := sha256.Sum256([]byte("p2pdiloco/corpus/1" + name))
	return file{path: path, name: name, hash: binary.BigEndian.Uint64(sum[:])}
}

// standardLibrary finds GOROOT/src. A program built with -trimpath does not know it, and runs the
// go command to ask.
func standardLibrary(ctx context.Context) (string, error) {
	root := build.Default.GOROOT
	if root == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("%w: no Go installation found for the default text (go env GOROOT: %w): name text "+
				"files or folders with --data", ErrNoData, err)
		}
		root = strings.TrimSpace(string(out))
	}
	src := filepath.Join(root, "src")
	if info, err := os.Stat(src); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%w: the Go installation at %s has no src folder: name text files or folders with --data",
			ErrNoData, root)
	}
	return src, nil
}

// A division says which bytes of a file are held out.
type division func(f file, text []byte, holdOut int) (train, heldOut []byte)

// byFile holds out whole files: every holdOut-th hash.
func byFile(f file, text []byte, holdOut int) (train, heldOut []byte) {
	if f.hash%uint64(holdOut) == 0 {
		return nil, text
	}
	return text, nil
}

// byTail holds out the end of every file.
func byTail(_ file, text []byte, holdOut int) (train, heldOut []byte) {
	cut := len(text) - len(text)/holdOut
	return text[:cut], text[cut:]
}

// read reads files until MaxBytes are held.
func (c CorpusConfig) read(ctx context.Context, files []file, divide division) (*Corpus, error) {
	corpus := &Corpus{}
	left := c.MaxBytes
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := readText(f.path, left)
		if err != nil {
			return nil, fmt.Errorf("read corpus: %w (make it readable or leave it out of --data)", err)
		}
		if len(text) == 0 {
			continue
		}
		train, heldOut := divide(f, text, c.HoldOut)
		corpus.train = append(corpus.train, train...)
		corpus.heldOut = append(corpus.heldOut, heldOut...)
		if left -= len(text); left == 0 {
			break
		}
	}
	return corpus, nil
}

// readText is the first limit bytes of a file; empty if it is not text. A file with a zero byte is
// not.
func readText(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, nil
	}
	return text, nil
}
