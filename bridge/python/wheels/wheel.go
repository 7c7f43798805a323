package main

import (
	"archive/zip"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// file is a file in a wheel.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// project is what a wheel's METADATA has of a pyproject.toml.
type project struct {
	Name, Version, Description string
	Python                     string              `toml:"requires-python"`
	Extras                     map[string][]string `toml:"optional-dependencies"`
}

// wheel is what a wheel is made from.
type wheel struct {
	project
	readme, license []byte
	files           []file
}

// read takes the package from the repository, and the program that goes into it.
func read(repository, program string) (*wheel, error) {
	here := filepath.Join(repository, "bridge", "python")
	text, err := os.ReadFile(filepath.Join(here, "pyproject.toml"))
	if err != nil {
		return nil, err
	}
	w := &wheel{}
	if err := w.describe(text); err != nil {
		return nil, fmt.Errorf("pyproject.toml: %w", err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	w.files = append(w.files, file{w.Name + "/bin/p2pdiloco", 0o755, binary})
	var errs error
	w.readme, err = os.ReadFile(filepath.Join(here, "README.md"))
	errs = errors.Join(errs, err)
	w.license, err = os.ReadFile(filepath.Join(repository, "LICENSE"))
	errs = errors.Join(errs, err)
	return w, errors.Join(errs, w.readPackage(os.DirFS(here)))
}

// readPackage takes the Python files.
func (w *wheel) readPackage(dir fs.FS) error {
	return fs.WalkDir(dir, w.Name, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if ext := filepath.Ext(path); ext != ".py" && ext != ".typed" {
			return nil
		}
		data, err := fs.ReadFile(dir, path)
		w.files = append(w.files, file{path, 0o644, data})
		return err
	})
}

// describe takes what METADATA needs from a pyproject.toml.
func (w *wheel) describe(text []byte) error {
	file := struct{ Project *project }{&w.project}
	if err := toml.Unmarshal(text, &file); err != nil {
		return err
	}
	if w.Name == "" || w.Version == "" || w.Description == "" || w.Python == "" {
		return errors.New("name, version, description and requires-python are needed in [project]")
	}
	return nil
}

func (w *wheel) fileName(tags []string) string {
	return fmt.Sprintf("%s-%s-py3-none-%s.whl", w.Name, w.Version, strings.Join(tags, "."))
}

// info are the files that describe a wheel, but RECORD.
func (w *wheel) info(dir string, tags []string) []file {
	metadata := []string{
		"Metadata-Version: 2.1", "Name: " + w.Name, "Version: " + w.Version, "Summary: " + w.Description,
		"License: Apache-2.0", "License-File: LICENSE", "Requires-Python: " + w.Python,
	}
	for _, extra := range slices.Sorted(maps.Keys(w.Extras)) {
		metadata = append(metadata, "Provides-Extra: "+extra)
		for _, needs := range w.Extras[extra] {
			metadata = append(metadata, fmt.Sprintf("Requires-Dist: %s; extra == %q", needs, extra))
		}
	}
	metadata = append(metadata, "Description-Content-Type: text/markdown", "", string(w.readme))
	about := []string{"Wheel-Version: 1.0", "Generator: p2pdiloco", "Root-Is-Purelib: false"}
	for _, tag := range tags {
		about = append(about, "Tag: py3-none-"+tag)
	}
	return []file{
		{dir + "/METADATA", 0o644, []byte(strings.Join(metadata, "\n"))},
		{dir + "/WHEEL", 0o644, []byte(strings.Join(about, "\n") + "\n")},
		{dir + "/entry_points.txt", 0o644, []byte("[console_scripts]\np2pdiloco = p2pdiloco.__main__:main\n")},
		{dir + "/LICENSE", 0o644, w.license},
	}
}

// write writes the wheel. The same files give the same bytes.
func (w *wheel) write(out io.Writer, tags []string) error {
	dir := fmt.Sprintf("%s-%s.dist-info", w.Name, w.Version)
	files := slices.SortedFunc(slices.Values(w.files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
	files = append(files, w.info(dir, tags)...)
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%s/RECORD,,\n", dir)
	files = append(files, file{dir + "/RECORD", 0o644, []byte(record.String())})
	z := zip.NewWriter(out)
	z.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, f := range files {
		if err := add(z, f); err != nil {
			return err
		}
	}
	return z.Close()
}

func add(z *zip.Writer, f file) error {
	h := &zip.FileHeader{
		Name: f.name, Method: zip.Deflate,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), // the earliest that a zip can say
	}
	h.SetMode(f.mode)
	w, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = w.Write(f.data)
	return err
}
