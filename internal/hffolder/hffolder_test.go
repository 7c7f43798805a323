package hffolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// tiny is the folder that testdata/make.py made; tinyLayout is a layout in the order of PyTorch's
// named_parameters(), which has tied matrices once.
const tiny = "testdata/tiny"

func tinyLayout() slot.Layout {
	return slot.Layout{
		{Name: "transformer.wte.weight", Shape: []uint64{6, 2}},
		{Name: "transformer.h.0.mlp.weight", Shape: []uint64{2, 2}},
		{Name: "transformer.ln_f.weight", Shape: []uint64{2}},
	}
}

var tinyValues = []float32{
	-1.5, -1.25, -1, -.75, -.5, -.25, 0, .25, .5, .75, 1, 1.25, 1, -2, .5, 8, 1.5, .1,
}

func open(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// loaded is what testdata/load.py reads in a folder.
type loaded struct {
	Config  map[string]any `json:"config"`
	Files   int            `json:"files"`
	Tensors map[string]struct {
		DType  string    `json:"dtype"`
		Shape  []uint64  `json:"shape"`
		Values []float32 `json:"values"`
	} `json:"tensors"`
}

func load(t *testing.T, dir string) (l loaded) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: nothing but our own code could read the folder")
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/load.py", dir)
	var fault bytes.Buffer
	cmd.Stderr = &fault
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, fault.String())
	}
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRead(t *testing.T) {
	f := open(t, tiny)
	if err := f.Match(tinyLayout()); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(tinyValues))
	if err := f.Read(got, tinyLayout()); err != nil || !slices.Equal(got, tinyValues) {
		t.Fatalf("%v, %v, want %v", got, err, tinyValues)
	}
	layout, err := f.Layout()
	if err != nil || len(layout) != 3 || layout.Elements() != uint64(len(tinyValues)) {
		t.Fatalf("%v, %v: tied matrices count once", layout, err)
	}
}

// edit copies the tiny folder and changes the copy.
func edit(t *testing.T, change func(dir string)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	change(dir)
	return dir
}

// replaceIn replaces a text of a file in the tiny folder, which must be there.
func replaceIn(t *testing.T, file, old, replacement string) func(dir string) {
	return func(dir string) {
		t.Helper()
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(old)) {
			t.Fatalf("%q is not in %s: %v", old, file, err)
		}
		put(t, path, strings.Replace(string(text), old, replacement, 1))
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, files ...string) func(dir string) {
	return func(dir string) {
		t.Helper()
		for _, file := range files {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

const firstShard, secondShard = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"

func TestWhatIsWrongWithAFolderIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string)
		want   string
	}{
		"no config":      {remove(t, "config.json"), "it holds no config.json"},
		"a torn config":  {replaceIn(t, "config.json", "}", ""), "config.json: unexpected end"},
		"no weights":     {remove(t, firstShard, secondShard, indexName), "neither model.safetensors nor"},
		"a shard absent": {remove(t, secondShard), "names " + secondShard + ", which is not there"},
		"a torn index":   {replaceIn(t, indexName, "{", ""), indexName + ": "},
		"an empty index": {func(dir string) { put(t, filepath.Join(dir, indexName), "{}") }, "weight_map is empty"},
		"a path": {
			replaceIn(t, indexName, firstShard, "../"+firstShard), "a .safetensors file in the same folder",
		},
		"not in the index": {
			replaceIn(t, indexName, `"lm_head.weight"`, `"lm_head.other"`), "does not say so",
		},
		"not in the file": {
			replaceIn(t, indexName, `"weight_map": {`, `"weight_map": {"x.weight": "`+secondShard+`",`),
			`says that tensor "x.weight" is in ` + secondShard,
		},
		"in another file": {
			replaceIn(t, indexName, `"lm_head.weight": "model-00002`, `"lm_head.weight": "model-00001`),
			`says that tensor "lm_head.weight" is in ` + firstShard,
		},
		"a torn shard": {
			func(dir string) {
				if err := os.Truncate(filepath.Join(dir, firstShard), 180); err != nil {
					t.Fatal(err)
				}
			}, firstShard + ": safetensors: the file ends too early",
		},
		"unknown": {replaceIn(t, secondShard, `"BF16"`, `"I17" `), `"I17" of tensor`},
		"two forms": {
			func(dir string) { put(t, filepath.Join(dir, singleName), "") }, "they may be two models",
		},
		"pickles": {
			func(dir string) {
				remove(t, firstShard, secondShard, indexName)(dir)
				put(t, filepath.Join(dir, "pytorch_model.bin"), "")
			}, "PyTorch pickles",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := edit(t, c.change)
			if f, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), dir) {
				t.Errorf("%v, %v, want %q", f, err, c.want)
			}
		})
	}
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "x"): "no such file", tiny + "/config.json": "it is a file",
	} {
		if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestMatchNamesEveryDifference(t *testing.T) {
	layout := tinyLayout()
	layout[0].Shape = []uint64{2, 6}
	layout[1].Name = "transformer.h.1.mlp.weight"
	err := open(t, tiny).Match(layout)
	for _, want := range []string{
		`"transformer.wte.weight" is [6 2] in the folder and [2 6] in the layout`,
		`"transformer.h.1.mlp.weight" [2 2] is missing`, `"transformer.h.0.mlp.weight" [2 2] is not in the layout`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// The weights of gpt2 as they are on the hub: those of the body alone, with its causal masks.
func TestOldFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gpt2")
	wte, mask, bias := []float32{1, 2, 3, 4}, []float32{1, 0, 1, 1}, []float32{5, 6}
	file := func(extra ...safetensors.Vector) {
		var b bytes.Buffer
		if err := safetensors.Write(&b, map[string]string{"format": "pt"}, append([]safetensors.Vector{
			{Layout: slot.Layout{{Name: "h.0.attn.c_attn.bias", Shape: []uint64{2}}}, Values: bias},
			{Layout: slot.Layout{{Name: "wte.weight", Shape: []uint64{2, 2}}}, Values: wte},
		}, extra...)...); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, singleName), b.String())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, configName), `{"model_type": "gpt2", "torch_dtype": "float32"}`)
	file(safetensors.Vector{
		Layout: slot.Layout{
			{Name: "h.0.attn.bias", Shape: []uint64{1, 1, 2, 2}}, {Name: "h.0.attn.masked_bias"},
		},
		Values: append(mask, -1e4),
	})
	layout := slot.Layout{
		{Name: "transformer.wte.weight", Shape: []uint64{2, 2}},
		{Name: "transformer.h.0.attn.c_attn.bias", Shape: []uint64{2}},
	}
	f := open(t, dir)
	if err := f.Match(layout); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 6)
	if err := f.Read(got, layout); err != nil || !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
		t.Errorf("read %v, %v", got, err)
	}
	alone, err := OpenFile(filepath.Join(dir, singleName), "")
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	clear(got)
	if err := errors.Join(alone.Match(layout), alone.Read(got, layout)); err != nil ||
		!slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
		t.Errorf("the file alone: read %v, %v", got, err)
	}
	if name, there := alone.Renamed(layout); name != "transformer.wte.weight" || there != "wte.weight" {
		t.Errorf("%q is said to be %q in the file", name, there)
	}
	if all, err := f.Layout(); err != nil || len(all) != 2 {
		t.Errorf("the layout is %v, %v: buffers are no parameters", all, err)
	}
	file(safetensors.Vector{
		Layout: slot.Layout{{Name: "transformer.h.0.ln.weight", Shape: []uint64{1}}}, Values: []float32{1},
	})
	err = open(t, dir).Match(layout)
	if err == nil || !strings.Contains(err.Error(), `"transformer.wte.weight" [2 2] is missing`) {
		t.Errorf("a folder with both kinds of names: %v", err)
	}
}

// A matrix that is there twice is tied only where it is equal, and config.json does not deny it.
func TestTied(t *testing.T) {
	denied := open(t, edit(t, replaceIn(t, "config.json", "true", "false")))
	if err := denied.Match(tinyLayout()); err == nil || !strings.Contains(err.Error(), "tie_word_embeddings is false") {
		t.Errorf("config.json denies it: %v", err)
	}
	if layout, err := denied.Layout(); err != nil || len(layout) != 4 {
		t.Errorf("config.json denies it, the layout is %v, %v", layout, err)
	}
	other := open(t, edit(t, func(dir string) {
		path := filepath.Join(dir, secondShard)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1 // lm_head.weight lies last
		put(t, path, string(b))
	}))
	err := other.Match(tinyLayout())
	if err == nil || !strings.Contains(err.Error(), `"lm_head.weight" [6 2] is not in`) {
		t.Errorf("other values: %v", err)
	}
}

func output() Output {
	values := slices.Clone(tinyValues)
	for i := range values {
		values[i]++ // as if it had been trained
	}
	return Output{
		Layout: tinyLayout(), Values: values, Like: tiny, Metadata: map[string]string{"format": "pt", "run": "r"},
	}
}

// Whatever is written, Python reads as the loading code of transformers does.
func TestWhatIsWrittenPythonLoads(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Output)
		files  int
		dtypes []string // of the layout's tensors
		config string
	}{
		"one file":  {func(*Output) {}, 1, []string{"BF16", "BF16", "F32"}, "bfloat16"},
		"shards":    {func(o *Output) { o.ShardBytes = 20 }, 2, []string{"BF16", "BF16", "F32"}, "bfloat16"},
		"of one":    {func(o *Output) { o.ShardBytes = 1 }, 3, []string{"BF16", "BF16", "F32"}, "bfloat16"},
		"float32":   {func(o *Output) { o.DType = "float32" }, 1, []string{"F32", "F32", "F32"}, "float32"},
		"float16":   {func(o *Output) { o.DType = "float16" }, 1, []string{"F16", "F16", "F16"}, "float16"},
		"no source": {func(o *Output) { o.Like = withoutWeights(t) }, 1, []string{"BF16", "BF16", "BF16"}, "bfloat16"},
	} {
		t.Run(name, func(t *testing.T) {
			o, dir := output(), filepath.Join(t.TempDir(), "out")
			c.change(&o)
			if err := Write(t.Context(), dir, o); err != nil {
				t.Fatal(err)
			}
			l, at := load(t, dir), 0
			if l.Files != c.files || l.Config["torch_dtype"] != c.config || l.Config["n_embd"] != 2. ||
				len(l.Tensors) != len(o.Layout) {
				t.Errorf("%+v", l)
			}
			for i, want := range o.Layout {
				got, n := l.Tensors[want.Name], int(want.Elements())
				values := rounded(t, o.Values[at:at+n], c.dtypes[i])
				if got.DType != c.dtypes[i] || !slices.Equal(got.Shape, want.Shape) ||
					!slices.Equal(got.Values, values) {
					t.Errorf("%s is %+v, want %s %v", want.Name, got, c.dtypes[i], values)
				}
				at += n
			}
			if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err != nil {
				t.Error("the tokenizer was left behind:", err)
			}
			again := open(t, dir)
			if err := again.Match(o.Layout); err != nil {
				t.Error(err)
			}
		})
	}
}

// rounded is what is left of values in a dtype.
func rounded(t *testing.T, values []float32, d string) []float32 {
	t.Helper()
	layout := slot.Layout{{Name: "x", Shape: []uint64{uint64(len(values))}}}
	var b bytes.Buffer
	err := safetensors.Write(&b, nil, safetensors.Vector{Layout: layout, Values: values, DType: safetensors.DType(d)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(values))
	if err := f.Read(got, layout); err != nil {
		t.Fatal(err)
	}
	return got
}

func withoutWeights(t *testing.T) string {
	t.Helper()
	return edit(t, remove(t, firstShard, secondShard, indexName))
}

// What cannot be written is refused, and nothing is left behind.
func TestWriteRefuses(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	if err := os.CopyFS(full, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Output)
		to     string
		want   string
	}{
		"a full folder": {func(*Output) {}, full, "is not empty"},
		"a dtype":       {func(o *Output) { o.DType = "int8" }, "", `"int8": float32, bfloat16 or float16`},
		"another model": {func(o *Output) { o.Layout[2].Name = "ln" }, "", "does not hold this run's model"},
		"no config":     {func(o *Output) { o.Like = t.TempDir() }, "", "it holds no config.json"},
		"a large value": {
			func(o *Output) { o.Values[3], o.DType = 1e6, "float16" }, "",
			`element 3 of tensor "transformer.wte.weight"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, parent := output(), t.TempDir()
			c.change(&o)
			to := c.to
			if to == "" {
				to = filepath.Join(parent, "out")
			}
			if err := Write(t.Context(), to, o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Only the dtype changes in config.json, under both of its names, and not inside nested objects.
func TestConfigKeepsItsText(t *testing.T) {
	const text = `{"torch_dtype" : "bfloat16","vision":{"dtype":"bfloat16"}, "dtype": "bfloat16", "x": [1.0, 2e1]}`
	c := Config{Text: []byte(text), DType: "bfloat16"}
	got, err := c.with(safetensors.F32)
	want := `{"torch_dtype" : "float32","vision":{"dtype":"bfloat16"}, "dtype": "float32", "x": [1.0, 2e1]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
