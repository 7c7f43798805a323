//go:build cgo && unix

package cgo

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// cudaLibrary builds the CUDA trainer once for all tests, for the emulation on the CPU.
var cudaLibrary = sync.OnceValues(func() (path string, err error) {
	cmd := exec.Command("../trainers/cuda/build.sh", "--emulate", built)
	cmd.Env = append(os.Environ(), "CXXFLAGS=-Werror")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cuda/build.sh: %w\n%s", err, out)
	}
	return filepath.Join(built, "libp2pdiloco_cuda_emulated.so"), nil
})

// openCUDA loads the CUDA trainer. The test closes it.
func openCUDA(tb testing.TB, config string, seed uint64) (Library, error) {
	tb.Helper()
	path, err := cudaLibrary()
	must(tb, err)
	return Open(tb.Context(), Config{Path: path, Config: config, Seed: seed})
}

// startCUDA is open where nothing may fail.
func startCUDA(tb testing.TB, config string, seed uint64) Library {
	tb.Helper()
	t, err := openCUDA(tb, config, seed)
	must(tb, err)
	tb.Cleanup(func() {
		if err := t.Close(); err != nil {
			tb.Error(err)
		}
	})
	return t
}

// prose writes a file with something to learn: sentences of a few words, in random order.
func prose(tb testing.TB, bytes int) (path string) {
	tb.Helper()
	words := strings.SplitAfter("the peer trains a model and sends its gradient.\n", " ")
	rng := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for len(text) < bytes {
		text = append(text, words[rng.IntN(len(words))]...)
	}
	path = filepath.Join(tb.TempDir(), "some text")
	must(tb, os.WriteFile(path, text[:bytes], 0o644))
	return path
}

// peerIDs are peer IDs in their binary order.
func peerIDs(n int) (ids []trainer.PeerID) {
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
