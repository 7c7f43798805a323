package disks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/hffolder"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// bowlFolder makes a Hugging Face folder that holds a bowl's start in bfloat16.
func bowlFolder(t *testing.T) string {
	t.Helper()
	like, dir := t.TempDir(), filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(filepath.Join(like, "config.json"), []byte(`{"model_type": "bowl"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	values := make([]float32, nodetest.BowlElements)
	for i := range values {
		values[i] = float32(i % 128)
	}
	if err := hffolder.Write(t.Context(), dir, hffolder.Output{
		Layout: nodetest.BowlLayout(), Values: values, Like: like, DType: "bfloat16",
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A run begins with a folder, on one founder as with the one file that init makes of it on the
// other, and ends as a folder like it.
func TestARunFromFolderToFolder(t *testing.T) {
	folder, file := bowlFolder(t), filepath.Join(t.TempDir(), "model.safetensors")
	if m, err := p2pdiloco.Import(t.Context(), folder, file, false); err != nil || m.Elements != nodetest.BowlElements {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := p2pdiloco.Import(t.Context(), folder, file, false); err == nil ||
		!strings.Contains(err.Error(), "--force") {
		t.Errorf("a file that is there: %v", err)
	}
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 2), 2, func(s *nodetest.Swarm) {
		s.Peers[0].Config = func(c *p2pdiloco.Config) { c.InitFile = "hf:" + folder }
		s.Peers[1].Config = func(c *p2pdiloco.Config) { c.InitFile = file }
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
		whole, half := exportedBoth(t, s.Peers[0].Dir, folder)
		f, err := hffolder.Open(t.Context(), half)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rounded := make([]float32, len(whole))
		if err := f.Read(rounded, nodetest.BowlLayout()); err != nil || f.Tensors[0].DType != "BF16" {
			t.Fatal(err, f.Tensors)
		}
		for i, v := range whole {
			if d := v - rounded[i]; d*d > v*v/(1<<16) {
				t.Fatalf("element %d is %g in the folder and %g in the file", i, rounded[i], v)
			}
		}
	})
}

// exportedBoth exports a peer's model as a file, which it reads, and as a folder.
func exportedBoth(t *testing.T, dataDir, like string) (values []float32, folder string) {
	t.Helper()
	file, folder := filepath.Join(t.TempDir(), "m.safetensors"), filepath.Join(t.TempDir(), "hf")
	for _, cfg := range []p2pdiloco.ExportConfig{{Out: file}, {Folder: folder, Like: like}} {
		cfg.DataDir = dataDir
		if _, err := p2pdiloco.Export(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	_, values = tensors(t, file)
	return values, folder
}

// An export that asks for two things at once, or too little, is refused with what to do.
func TestExportOfAFolderSaysWhatIsMissing(t *testing.T) {
	for want, cfg := range map[string]p2pdiloco.ExportConfig{
		"export twice":               {Out: "a", Folder: "b"},
		"--like DIR":                 {Folder: "b"},
		"holds no momentum":          {Folder: "b", Like: "c", Momentum: true},
		"an old one is never":        {Folder: "b", Like: "c", Force: true},
		"are for a Hugging Face":     {Out: "a", DType: "float16"},
		"name one with --hf DIR":     {Out: "a", Like: "c"},
		"holds no run.spec: name":    {DataDir: t.TempDir(), Folder: "b", Like: "c"},
		"holds no run.spec: name th": {DataDir: t.TempDir(), Out: filepath.Join(t.TempDir(), "a")},
	} {
		if _, err := p2pdiloco.Export(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A folder that is named as a file is told how to be named.
func TestAFolderIsNamedWithItsPrefix(t *testing.T) {
	folder := bowlFolder(t)
	spec := p2pdiloco.Spec{Name: "r", Layout: nodetest.BowlLayout()}
	_, err := p2pdiloco.Join(t.Context(), p2pdiloco.Config{Spec: spec, InitFile: folder})
	if err == nil || !strings.Contains(err.Error(), "as hf:"+folder) {
		t.Error(err)
	}
	spec.Layout = slices.Concat(spec.Layout, p2pdiloco.Layout{{Name: "y", Shape: []uint64{1}}})
	_, err = p2pdiloco.Join(t.Context(), p2pdiloco.Config{Spec: spec, InitFile: "hf:" + folder})
	if err == nil || !strings.Contains(err.Error(), `tensor "y" [1] is missing`) {
		t.Error(err)
	}
}
