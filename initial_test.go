package p2pdiloco

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A file of a model without its head is taken for one of the whole model, and the log says so.
func TestAFileOfTheBodyAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	var b, log bytes.Buffer
	there := slot.Layout{{Name: "wte.weight", Shape: []uint64{2}}}
	if err := safetensors.Write(&b, nil, there, []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, logger := make([]float32, 2), slog.New(slog.NewTextHandler(&log, nil))
	err := readInitial(path, slot.Layout{{Name: "transformer.wte.weight", Shape: []uint64{2}}}, got, logger)
	if err != nil || !slices.Equal(got, []float32{1, 2}) ||
		!strings.Contains(log.String(), "tensor=transformer.wte.weight") {
		t.Errorf("%v, %v, log %q", got, err, log.String())
	}
	log.Reset()
	if err := readInitial(path, there, got, logger); err != nil || log.Len() > 0 {
		t.Errorf("with the layout's own names: %v, log %q", err, log.String())
	}
}

// A folder is answered with what to give in its place, and what is no model file with what it is.
func TestWhatIsNoModelFile(t *testing.T) {
	dir := t.TempDir()
	pointer := filepath.Join(dir, "pointer.safetensors")
	if err := os.WriteFile(pointer, []byte("version https://git-lfs.github.com/spec/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:          "give --init " + dir + "/model.safetensors",
		"hf:gpt2":    `gives init="hf:gpt2" to p2pdiloco.found()`,
		pointer:      pointer + "): safetensors: not a header of this format: it is a Git LFS pointer",
		os.DevNull:   "is no file",
		dir + "/not": "no such file",
	} {
		err := readInitial(path, nil, nil, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
