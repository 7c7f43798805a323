//go:build cgo

package trainers_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/bridge/cgo"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if folder, err := library(); err == nil {
		_ = os.RemoveAll(filepath.Dir(folder))
	}
	os.Exit(code)
}

// library builds the C trainer once for all tests.
var library = sync.OnceValues(func() (path string, err error) {
	folder, err := os.MkdirTemp("", "p2pdiloco-trainers-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("cpu/build.sh", folder)
	cmd.Env = append(os.Environ(), "WERROR=-Werror")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cpu/build.sh: %w\n%s", err, out)
	}
	return filepath.Join(folder, "libp2pdiloco_cpu.so"), nil
})

// open loads the C trainer with a configuration.
func open(tb testing.TB, config string, seed uint64) cgo.Library {
	tb.Helper()
	path, err := library()
	must(tb, err)
	t, err := cgo.Open(tb.Context(), cgo.Config{Path: path, Config: config, Seed: seed})
	must(tb, err)
	tb.Cleanup(func() {
		if err := t.Close(); err != nil {
			tb.Error(err)
		}
	})
	return t
}

// write makes files below a new folder, name -> text.
func write(tb testing.TB, files map[string]string) (root string) {
	tb.Helper()
	root = tb.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		must(tb, os.MkdirAll(filepath.Dir(path), 0o755))
		must(tb, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

// prose is text with something to learn: sentences of a few words, in random order.
func prose(seed uint64, bytes int) string {
	words := []string{"the ", "peer ", "trains ", "a ", "model ", "and ", "sends ", "its ", "gradient.\n"}
	rng := rand.New(rand.NewPCG(seed, 2))
	var text []byte
	for len(text) < bytes {
		text = append(text, words[rng.IntN(len(words))]...)
	}
	return string(text[:bytes])
}

// manyFiles is 200 files of 600 bytes in some folders: enough for whole files to be held out.
func manyFiles() map[string]string {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("dir%d/f%d.txt", i%7, i)] = prose(uint64(i), 600)
	}
	return files
}

// members are peer IDs in their binary order.
func members(n int) (ids []trainer.PeerID) {
	for i := range n {
		ids = append(ids, trainer.PeerID(fmt.Sprintf("\x00\x24\x08\x01\x12\x20%032d", i)))
	}
	return ids
}

// must fails where something did.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
