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
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// file is a file in a wheel.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// wheel is what a wheel is made from.
type wheel struct {
	name, version, summary, python string
	extras                         []string // lines of METADATA
	readme, license                []byte
	files                          []file
}

// read takes the package from the repository, and the program that goes into it.
func read(repository, program string) (*wheel, error) {
	here := filepath.Join(repository, "bridge", "python")
	project, err := os.ReadFile(filepath.Join(here, "pyproject.toml"))
	if err != nil {
		return nil, err
	}
	w := &wheel{}
	if err := w.describe(string(project)); err != nil {
		return nil, fmt.Errorf("pyproject.toml: %w", err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	w.files = append(w.files, file{w.name + "/bin/p2pdiloco", 0o755, binary})
	var errs error
	w.readme, err = os.ReadFile(filepath.Join(here, "README.md"))
	errs = errors.Join(errs, err)
	w.license, err = os.ReadFile(filepath.Join(repository, "LICENSE"))
	errs = errors.Join(errs, err)
	return w, errors.Join(errs, w.readPackage(os.DirFS(here)))
}

// readPackage takes the Python files.
func (w *wheel) readPackage(dir fs.FS) error {
	return fs.WalkDir(dir, w.name, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if ext := filepath.Ext(path); ext != ".py" && ext != ".typed" && filepath.Base(path) != "py.typed" {
			return nil
		}
		data, err := fs.ReadFile(dir, path)
		w.files = append(w.files, file{path, 0o644, data})
		return err
	})
}

var (
	stringField = regexp.MustCompile(`(?m)^([a-z-]+) = "([^"]*)"$`)
	extra       = regexp.MustCompile(`(?m)^([a-z]+) = \["([^"]*)"\]$`)
)

// describe takes what METADATA needs from a pyproject.toml, of which it knows this project's form.
func (w *wheel) describe(project string) error {
	_, section, _ := strings.Cut(project, "\n[project]\n")
	section, extras, _ := strings.Cut(section, "\n[project.optional-dependencies]\n")
	extras, _, _ = strings.Cut(extras, "\n[")
	fields := map[string]string{}
	for _, m := range stringField.FindAllStringSubmatch(section, -1) {
		fields[m[1]] = m[2]
	}
	w.name, w.version, w.summary, w.python = fields["name"], fields["version"], fields["description"],
		fields["requires-python"]
	if w.name == "" || w.version == "" || w.summary == "" || w.python == "" {
		return errors.New("name, version, description and requires-python are needed in [project]")
	}
	for _, m := range extra.FindAllStringSubmatch(extras, -1) {
		w.extras = append(w.extras, "Provides-Extra: "+m[1],
			fmt.Sprintf("Requires-Dist: %s; extra == %q", m[2], m[1]))
	}
	return nil
}

func (w *wheel) fileName(tags []string) string {
	return fmt.Sprintf("%s-%s-py3-none-%s.whl", w.name, w.version, strings.Join(tags, "."))
}

// info are the files that describe a wheel, but RECORD.
func (w *wheel) info(dir string, tags []string) []file {
	metadata := append([]string{
		"Metadata-Version: 2.1", "Name: " + w.name, "Version: " + w.version, "Summary: " + w.summary,
		"License: Apache-2.0", "License-File: LICENSE", "Requires-Python: " + w.python,
	}, w.extras...)
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
	dir := fmt.Sprintf("%s-%s.dist-info", w.name, w.version)
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
