package hffolder

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestTensorsThatAreNoFloats: models save masks as BOOL or U8, which is no reason to refuse them. A
// parameter of such a type is refused, by name and with what to do.
func TestTensorsThatAreNoFloats(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gpt2")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, configName), `{"model_type": "gpt2", "torch_dtype": "float32"}`)
	header := `{"h.0.attn.bias":{"dtype":"BOOL","shape":[1,1,2,2],"data_offsets":[0,4]},` +
		`"h.1.attn.bias":{"dtype":"U8","shape":[1,1,2,2],"data_offsets":[4,8]},` +
		`"w":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`
	put(t, filepath.Join(dir, singleName),
		string(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))+header+
			"\x01\x00\x01\x01\x01\x00\x01\x01\x00\x00\x80\x3f")
	f := open(t, dir)
	layout, err := f.Layout()
	if err != nil || len(layout) != 1 {
		t.Fatalf("the layout is %v, %v", layout, err)
	}
	got := make([]float32, 1)
	if err := errors.Join(f.Match(layout), f.Read(got, layout)); err != nil || !slices.Equal(got, []float32{1}) {
		t.Errorf("read %v, %v", got, err)
	}

	layout = append(layout, slot.Tensor{Name: "h.0.attn.bias", Shape: []uint64{1, 1, 2, 2}})
	want := `tensor "h.0.attn.bias" is of type BOOL, and F32, BF16 and F16 can be read: save the model in one of them`
	if err := f.Match(layout); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := f.Read(make([]float32, 5), layout); !errors.Is(err, safetensors.ErrDType) {
		t.Errorf("read all the same: %v", err)
	}
	put(t, filepath.Join(dir, singleName),
		string(binary.LittleEndian.AppendUint64(nil, 60))+
			`{"w":{"dtype":"I8","shape":[1,4],"data_offsets":[0,4]}}     `+"\x01\x00\x01\x01")
	if _, err := open(t, dir).Layout(); err == nil || !strings.Contains(err.Error(), `"w" is of type I8`) {
		t.Errorf("a model of whole numbers: %v", err)
	}
}
