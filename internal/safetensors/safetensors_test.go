package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func vector() (slot.Layout, []float32) {
	layout := slot.Layout{
		{Name: "emb.weight", Shape: []uint64{3, 5}},
		{Name: `a "quoted" <ü>`, Shape: []uint64{7}},
		{Name: "scale"},
	}
	v := make([]float32, layout.Elements())
	for i := range v {
		v[i] = rand.Float32() - .5
	}
	return layout, v
}

func write(t testing.TB, metadata map[string]string, layout slot.Layout, values []float32) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, metadata, layout, values); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(b []byte) (*File, error) { return Open(bytes.NewReader(b), int64(len(b))) }

func TestRoundTrip(t *testing.T) {
	layout, values := vector()
	meta := map[string]string{"run": "x", "slot": "7"}
	b := write(t, meta, layout, values)
	if n := binary.LittleEndian.Uint64(b); n%alignment != 0 {
		t.Errorf("a header of %d bytes leaves the data unaligned", n)
	}
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(f.Metadata, meta) || len(f.Tensors) != 3 {
		t.Fatalf("%v, %v", f.Metadata, f.Tensors)
	}
	if err := f.Match(layout); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(values))
	if err := f.Read(got, layout); err != nil || !slices.Equal(got, values) {
		t.Fatalf("read %v, %v", got, err)
	}
}

// The script testdata/golden.py made the file from the format's description.
func TestGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/tiny.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	layout := slot.Layout{ // not the file's order
		{Name: "brain", Shape: []uint64{3}},
		{Name: "scale ü"},
		{Name: "half", Shape: []uint64{4}},
		{Name: "emb.weight", Shape: []uint64{2, 3}},
	}
	if err := f.Match(layout); err != nil || f.Metadata["made"] != "by hand" {
		t.Fatal(err, f.Metadata)
	}
	got := make([]float32, layout.Elements())
	if err := f.Read(got, layout); err != nil {
		t.Fatal(err)
	}
	brain := math.Float32frombits(math.Float32bits(1e38) &^ 0xffff)
	want := []float32{
		1, -3.140625, brain, 7, 0.5, -65504, 1. / (1 << 24), 6.1035156e-05 * 1023 / 1024, 1, -2.5, 3e-38,
		0, 1e-45, float32(math.Inf(1)),
	}
	if !slices.Equal(got, want) {
		t.Fatalf("read %v\nwant %v", got, want)
	}
}

func TestHalf(t *testing.T) {
	for h, want := range map[uint16]float32{
		0: 0, 1: 5.9604645e-08, 0x03ff: 6.0975552e-05, 0x0400: 6.1035156e-05, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504,
		0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)),
	} {
		if got := fromHalf(h); got != want {
			t.Errorf("%#04x is %g, want %g", h, got, want)
		}
	}
	if nan := fromHalf(0x7e01); nan == nan { //nolint:staticcheck // a NaN is not itself
		t.Error("a NaN became a number")
	}
	if z := fromHalf(0x8000); z != 0 || !math.Signbit(float64(z)) {
		t.Errorf("-0 became %g", z)
	}
}

// file is a file with this header and data.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	for name, c := range map[string]struct {
		b    []byte
		want error
		says string
	}{
		"empty":           {nil, ErrTruncated, "0 bytes"},
		"short header":    {file("{"+a+"}", 8)[:20], ErrTruncated, "header"},
		"huge header":     {binary.LittleEndian.AppendUint64(nil, 1<<40), ErrHeader, "at most"},
		"no JSON":         {file(" {}", 0), ErrHeader, "no JSON object"},
		"not UTF-8":       {file("{\"\xff\":1}", 0), ErrHeader, "UTF-8"},
		"an array":        {file("[]", 0), ErrHeader, ""},
		"torn JSON":       {file("{"+a, 8), ErrHeader, "EOF"},
		"something after": {file("{"+a+"}{", 8), ErrHeader, "follows"},
		"no data":         {file("{"+a+"}", 4), ErrTruncated, `"a"`},
		"data after":      {file("{"+a+"}", 12), ErrGap, "4, after the last"},
		"gap":             {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), ErrGap, `"a"`},
		"overlap": {
			file("{"+a+`,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12), ErrOverlap,
			`"b" and "a"`,
		},
		"twice": {file("{"+a+","+a+"}", 8), ErrDuplicate, `"a"`},
		"a field twice": {
			file(`{"a":{"dtype":"F16","dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8),
			ErrDuplicate, `"dtype"`,
		},
		"a field in capitals": {file(`{"a":{"DTYPE":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), ErrHeader, "DTYPE"},
		"metadata twice":      {file(`{"__metadata__":{},"__metadata__":{}}`, 0), ErrDuplicate, "__metadata__"},
		"metadata number":     {file(`{"__metadata__":{"a":1}}`, 0), ErrHeader, "string"},
		"unknown dtype":       {file(`{"a":{"dtype":"I5","shape":[1],"data_offsets":[0,8]}}`, 8), ErrDType, `"I5"`},
		"wrong size":          {file(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), ErrSize, `"a"`},
		"backwards":           {file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8), ErrSize, `"a"`},
		"overflowing shape": {
			file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
			ErrShape, `"a"`,
		},
		"negative": {
			file(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8), ErrHeader,
			"whole numbers",
		},
		"fraction": {
			file(`{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}`, 8), ErrHeader,
			"whole numbers",
		},
		"too large": {
			file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9223372036854775808]}}`, 8),
			ErrHeader, "whole numbers",
		},
		"three offsets": {
			file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}}`, 8), ErrHeader,
			"data_offsets",
		},
		"a field missing": {file(`{"a":{"dtype":"F32","data_offsets":[0,8]}}`, 8), ErrHeader, "needs"},
		"deep":            {file(`{"a":`+strings.Repeat("[", 1000), 0), ErrHeader, "no object"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := open(c.b); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %v with %q", err, c.want, c.says)
			}
		})
	}
}

func TestEmptyTensorsAndSpacesAreFine(t *testing.T) {
	f, err := open(file(`{"e":{"dtype":"F32","shape":[0,9],"data_offsets":[0,0]},`+
		`"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   `, 4))
	if err != nil || len(f.Tensors) != 2 {
		t.Fatal(f, err)
	}
}

func TestMatchNamesEveryDifference(t *testing.T) {
	layout, values := vector()
	f, err := open(write(t, nil, layout, values))
	if err != nil {
		t.Fatal(err)
	}
	err = f.Match(slot.Layout{
		{Name: "emb.weight", Shape: []uint64{5, 3}},
		{Name: "scale"},
		{Name: "new", Shape: []uint64{2}},
	})
	for _, want := range []string{`"emb.weight" is [3 5] in the file and [5 3]`, `"new" [2] is missing`, `quoted`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	layout, values := vector()
	err := Write(io.Discard, nil, slices.Concat(layout, layout), slices.Concat(values, values))
	if !errors.Is(err, ErrDuplicate) {
		t.Errorf("names that occur twice: %v", err)
	}
	if err := Write(io.Discard, nil, layout, values[1:]); err == nil {
		t.Error("a vector that is too short was written")
	}
}

// A model may take most of the memory: neither side makes a second copy of it.
func TestNothingOfTheModelsSizeIsAllocated(t *testing.T) {
	layout := slot.Layout{{Name: "w", Shape: []uint64{4 << 20}}}
	v := make([]float32, layout.Elements())
	b := write(t, nil, layout, v)
	for name, f := range map[string]func() error{
		"Write": func() error { return Write(io.Discard, nil, layout, v) },
		"Read": func() error {
			f, err := open(b)
			if err == nil {
				err = f.Read(v, layout)
			}
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s of 16 MiB allocates %d bytes", name, n)
		}
	}
}

func FuzzOpen(f *testing.F) {
	layout, values := vector()
	f.Add(write(f, map[string]string{"a": "b"}, layout, values))
	f.Add(write(f, nil, layout, values))
	if b, err := os.ReadFile("testdata/tiny.safetensors"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := open(b)
		if err != nil {
			return
		}
		layout, bytes := slot.Layout{}, uint64(0)
		for _, x := range got.Tensors {
			if x.DType.Readable() {
				layout = append(layout, slot.Tensor{Name: x.Name, Shape: x.Shape})
			}
			bytes += x.end - x.begin
		}
		if bytes > uint64(len(b)) {
			t.Fatalf("tensors of %d bytes in a file of %d", bytes, len(b))
		}
		if err := got.Match(layout); err != nil {
			t.Fatal(err)
		}
		v := make([]float32, layout.Elements())
		if err := got.Read(v, layout); err != nil {
			t.Fatal(err)
		}
		again, err := open(write(t, got.Metadata, layout, v))
		if err != nil || again.Match(layout) != nil || !maps.Equal(again.Metadata, got.Metadata) {
			t.Fatal("what was read cannot be written and read again:", err)
		}
	})
}

// named is a file with tensors of these names, in the order of a layout's tensors, and with more.
func named(t *testing.T, more string, names ...string) *File {
	t.Helper()
	shapes := []string{"2,2", "2"}
	head, at := "{", 0
	for i, name := range names {
		size := 16 - 8*(i%2)
		head += fmt.Sprintf(`"%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]},`, name, shapes[i%2], at, at+size)
		at += size
	}
	b := file(strings.TrimSuffix(head+strings.ReplaceAll(more, "AT", fmt.Sprint(at, ",", at+16)), ",")+"}", at)
	if more != "" {
		b = append(b, make([]byte, 16)...)
	}
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The names of a file may have a prefix that the layout lacks, or lack the one that all names of
// the body begin with. What is no parameter is left out.
func TestNamesWithAnotherPrefix(t *testing.T) {
	of := func(w, b string) slot.Layout {
		return slot.Layout{{Name: w, Shape: []uint64{2, 2}}, {Name: b, Shape: []uint64{2}}}
	}
	const mask = `"h.attn.bias":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[AT]}`
	for name, c := range map[string]struct {
		f       *File
		layout  slot.Layout
		there   string // the name of the layout's first tensor
		leftOut string
		wrong   string
	}{
		"as they are":   {named(t, "", "h.w", "h.b"), of("h.w", "h.b"), "", "", ""},
		"without head":  {named(t, mask, "h.w", "h.b"), of("body.h.w", "body.h.b"), "h.w", "h.attn.bias", ""},
		"with a prefix": {named(t, "", "a.model.h.w", "a.model.h.b"), of("h.w", "h.b"), "a.model.h.w", "", ""},
		"with two": {
			named(t, "", "a.w", "a.b", "c.w", "c.b"), of("w", "b"), "", "", `2 times, under the prefixes ["a." "c."]`,
		},
		"of a part": {named(t, "", "a.w", "c.b"), of("w", "b"), "", "", `"w" [2 2] is missing`},
		"both kinds": {
			named(t, "", "h.w", "body.b"), of("body.h.w", "body.b"), "", "", `"body.h.w" [2 2] is missing`,
		},
		"tied beside": {named(t, "", "a.w", "a.b", "x"), of("w", "b"), "a.w", "x", ""},
		"whole numbers": {
			named(t, `"n":{"dtype":"I64","shape":[2],"data_offsets":[AT]}`, "w", "b"), of("w", "b"), "", "n", "",
		},
		"another number": {
			named(t, `"n":{"dtype":"F32","shape":[4],"data_offsets":[AT]}`, "w", "b"), of("w", "b"), "", "",
			`"n" [4] is not in the layout`,
		},
		"no number": {
			named(t, `"n":{"dtype":"I64","shape":[2],"data_offsets":[AT]}`, "w", "b"), of("w", "n"), "", "",
			`"n" is of type I64, and F32, BF16 and F16 can be read`,
		},
	} {
		err := c.f.Match(c.layout)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %s", name, err, c.wrong)
			}
			continue
		}
		_, there := c.f.Renamed(c.layout)
		if err != nil || there != c.there || strings.Join(c.f.LeftOut, " ") != c.leftOut {
			t.Errorf("%s: %v; %q is there, %q is left out", name, err, there, c.f.LeftOut)
		}
		if err := c.f.Read(make([]float32, 6), c.layout); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of two equal matrices the model has one, where the layout has one.
func TestATiedMatrixIsLeftOut(t *testing.T) {
	tied := slot.Layout{{Name: "e", Shape: []uint64{2, 2}}, {Name: "head", Shape: []uint64{2, 2}}}
	for last, want := range map[float32]string{4: "", 5: `"head" [2 2] is not in the layout`} {
		f, err := open(write(t, nil, tied, []float32{1, 2, 3, 4, 1, 2, 3, last}))
		if err != nil {
			t.Fatal(err)
		}
		err = f.Match(tied[:1])
		if want == "" && (err != nil || !slices.Equal(f.LeftOut, []string{"head"})) {
			t.Errorf("%v, %v", err, f.LeftOut)
		} else if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("two that differ: %v", err)
		}
	}
}

// What people have in the place of a model file is called what it is.
func TestOtherKindsOfFiles(t *testing.T) {
	for b, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\n": "a Git LFS pointer",
		"<!DOCTYPE html><html></html>":                               "a web page",
		"\n\n <html>":                                                "a web page",
		"PK\x03\x04\x00\x00\x08\x08\x00\x00archive/data.pkl":         "a PyTorch pickle",
		"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.":                   "a PyTorch pickle",
		"PK\x03\x04": "a PyTorch pickle",
	} {
		if _, err := open([]byte(b)); !errors.Is(err, ErrHeader) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", b, err, want)
		}
	}
	for _, size := range []int{'<', 0x80} { // lengths that begin like a page and a pickle
		head := `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
		if _, err := open(file(head+strings.Repeat(" ", size-len(head)), 4)); err != nil {
			t.Error(err)
		}
	}
}
