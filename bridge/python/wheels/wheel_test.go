package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const repository = "../../.."

// packed is a wheel with a small program, whose text is script.
func packed(t *testing.T, script string, tags []string) (name string, content []byte) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := read(repository, program)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := w.write(&b, tags); err != nil {
		t.Fatal(err)
	}
	return w.fileName(tags), b.Bytes()
}

func unpack(t *testing.T, content []byte) map[string]*zip.File {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*zip.File{}
	for _, f := range z.File {
		if files[f.Name] != nil {
			t.Errorf("%s is there twice", f.Name)
		}
		files[f.Name] = f
	}
	return files
}

func text(t *testing.T, f *zip.File) string {
	t.Helper()
	if f == nil {
		t.Fatal("a file is missing")
	}
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestContents(t *testing.T) {
	tags := platforms[0].tags
	name, content := packed(t, "#!/bin/sh\n", tags)
	const want = "p2pdiloco-0.1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl"
	if name != want {
		t.Errorf("%s, want %s", name, want)
	}
	files := unpack(t, content)
	for _, want := range []string{
		"p2pdiloco/__init__.py", "p2pdiloco/__main__.py", "p2pdiloco/py.typed", "p2pdiloco/attach/session.py",
		"p2pdiloco/attach/wire.py", "p2pdiloco-0.1.0.dist-info/LICENSE",
	} {
		if files[want] == nil {
			t.Errorf("%s is missing", want)
		}
	}
	for path, f := range files {
		want := fs.FileMode(0o644)
		if path == "p2pdiloco/bin/p2pdiloco" {
			want = 0o755
		}
		if f.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, f.Mode(), want)
		}
		if strings.Contains(path, "__pycache__") || strings.Contains(path, "test") {
			t.Errorf("%s does not belong in a wheel", path)
		}
	}
	if got := text(t, files["p2pdiloco/bin/p2pdiloco"]); got != "#!/bin/sh\n" {
		t.Errorf("the program is %q", got)
	}
	about := text(t, files["p2pdiloco-0.1.0.dist-info/WHEEL"])
	if !strings.Contains(about, "Root-Is-Purelib: false\n") || strings.Count(about, "Tag: py3-none-") != len(tags) {
		t.Errorf("WHEEL is %q", about)
	}
	metadata := text(t, files["p2pdiloco-0.1.0.dist-info/METADATA"])
	for _, want := range []string{
		"Name: p2pdiloco\nVersion: 0.1.0\n", "Requires-Python: >=3.9\n",
		"Provides-Extra: torch\nRequires-Dist: torch>=1.13; extra == \"torch\"\n", "\n\n# ",
	} {
		if !strings.Contains(metadata, want) {
			t.Errorf("METADATA lacks %q:\n%s", want, metadata)
		}
	}
}

func TestRecordListsEveryFile(t *testing.T) {
	_, content := packed(t, "program", platforms[1].tags)
	files := unpack(t, content)
	record := text(t, files["p2pdiloco-0.1.0.dist-info/RECORD"])
	lines := strings.Split(strings.TrimSuffix(record, "\n"), "\n")
	var want []string
	for path, f := range files {
		if strings.HasSuffix(path, "/RECORD") {
			want = append(want, path+",,")
			continue
		}
		data := text(t, f)
		sum := sha256.Sum256([]byte(data))
		hash := base64.RawURLEncoding.EncodeToString(sum[:])
		want = append(want, fmt.Sprintf("%s,sha256=%s,%d", path, hash, len(data)))
	}
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("RECORD is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// Pip installs the wheel in an empty environment without a compiler, and the command runs.
func TestPipInstallsIt(t *testing.T) {
	python := "/usr/bin/python3"
	if err := exec.CommandContext(t.Context(), python, "-m", "venv", "--help").Run(); err != nil {
		t.Skip("Debian's python3-venv is not installed")
	}
	name, content := packed(t, "#!/bin/sh\necho \"node: $*\"\n", platforms[0].tags)
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "venv", "bin")
	clean := append(os.Environ(), "PATH="+bin+":/usr/bin:/bin", "PYTHONPATH=", "P2PDILOCO_BINARY=")
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{python, "-m", "venv", filepath.Join(dir, "venv")}, ""},
		{[]string{bin + "/pip", "install", "--no-index", path}, "Successfully installed p2pdiloco"},
		{[]string{bin + "/p2pdiloco", "join", "--run", "x"}, "node: join --run x"},
		{[]string{bin + "/python", "-m", "p2pdiloco", "version"}, "node: version"},
		{[]string{bin + "/python", "-c", "import p2pdiloco.attach.session; print('imports')"}, "imports"},
	} {
		cmd := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
		cmd.Env, cmd.Dir = clean, dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Fatalf("%v: %v, %s, want %q", c.command, err, out, c.want)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"--platforms plan9/386": `no wheel is made for platform "plan9/386"`, "dist": "--out",
		"--program x": "--program is for one platform",
	} {
		if err := run(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestPlatformsThatAreMeant(t *testing.T) {
	for names, want := range map[string]string{
		"": runtime.GOOS + "/" + runtime.GOARCH, "darwin/arm64,linux/amd64": "darwin/arm64 linux/amd64",
		"all": "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64",
	} {
		chosen, err := choose(names)
		if got := strings.Trim(fmt.Sprint(chosen), "[]"); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", names, got, err, want)
		}
	}
}

// TestTooLarge: without the limit, a dependency more could double what users download, and nobody
// would notice.
func TestTooLarge(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	noise := make([]byte, maxBytes+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // nothing makes that smaller
	if err := os.WriteFile(program, noise, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := make1(repository, t.TempDir(), program, platforms[0])
	if err == nil || !strings.Contains(err.Error(), "more than the 20 that users are promised") {
		t.Error(err)
	}
	if err := os.WriteFile(program, noise[:maxBytes/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := make1(repository, t.TempDir(), program, platforms[0]); err != nil {
		t.Error(err)
	}
}
