//go:build cgo && unix

package cgo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

func libraryConfig(name, config string) Config {
	return Config{Path: libraryFile(name), Config: config, Timeout: time.Minute, Seed: 5}
}

// against has a library compared with another.
func against(cfg Config) []Other {
	return []Other{{cfg.Path, func(ctx context.Context) (trainer.Trainer, error) { return Open(ctx, cfg) }}}
}

// verdicts are those of a report's lines, by check.
func verdicts(r CheckReport) map[string]CheckLine {
	m := make(map[string]CheckLine)
	for _, l := range r.Lines {
		if old, ok := m[l.Check]; !ok || old.Verdict != Failed {
			m[l.Check] = l
		}
	}
	return m
}

func TestAGoodLibraryPasses(t *testing.T) {
	t.Parallel()
	told := 0
	r, err := CheckLibrary(t.Context(), CheckConfig{
		Library: libraryConfig("bowl", `{"size": 777}`), Against: against(libraryConfig("bowl", `{"size": 777}`)),
		Tell: func(CheckLine) { told++ },
	})
	if err != nil || !r.OK || r.Name != "bowl 1.0" || r.Tensors != 2 || r.Parameters != 777 || told != len(r.Lines) {
		t.Errorf("%+v, %v", r, err)
	}
	got := verdicts(r)
	for _, check := range []string{
		"open", "init", "load, export", "ranges", "run", "export_gradient", "evaluate", "cancel",
		"save, restore", "restore refuses", "destroy",
		"against " + libraryConfig("bowl", "").Path,
	} {
		if got[check].Verdict != OK {
			t.Errorf("%s: %v", check, got[check])
		}
	}
	if len(r.Comparisons) != 1 || len(r.Comparisons[0].Tensors) != 2 ||
		r.Comparisons[0].Tensors[0] != (TensorDifference{Name: "x", OK: true}) {
		t.Errorf("compared with itself: %+v", r.Comparisons)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// TestTasksHaveTheTimeOfTheRun: a library that refuses a task without it passes.
func TestTasksHaveTheTimeOfTheRun(t *testing.T) {
	library := libraryConfig("bad", `{"size":100, "how":"timed", "in":"run"}`)
	r, err := CheckLibrary(t.Context(), CheckConfig{Library: library})
	if err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTheExample: the trainer that docs/reference/bridge.md begins with builds as the page says,
// without a warning, and passes.
func TestTheExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/bridge.md")
	if err != nil || !strings.Contains(string(page), "make -C examples/c libmine.so\n") {
		t.Fatalf("the page builds it otherwise: %v", err)
	}
	lib := filepath.Join(t.TempDir(), "libmine.so")
	cmd := exec.Command("cc", "-std=c11", "-I", "../include", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
		"-o", lib, "../../examples/c/trainer.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := CheckLibrary(t.Context(), CheckConfig{Library: Config{Path: lib, Timeout: time.Minute}})
	if err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestBadLibraries: each fault is found by the check that is for it.
func TestBadLibraries(t *testing.T) {
	for _, c := range []struct {
		how, in, check string
		verdict        Verdict
		detail         string
	}{
		{"fail", "create", "open", Failed, "the data are"},
		{"unstable", "init", "init", Failed, "asked twice with one seed, 1 of 100 elements differ, by 1 at most; " +
			`the first is 3 (tensor "x"): 0 and 1`},
		{"rounds", "export_params", "load, export", Failed, "the first is 0"},
		{"forgets", "load", "ranges", Failed, "loaded by ranges, 3 of 100 elements differ"},
		{"timed counts", "run", "cancel", Failed, "step 0 of 1048576 after 4 steps"},
		{"too-many", "run", "run", Failed, "did 5 steps of 4"},
		{"silent", "run", "run", Failed, "*task->steps_done is 0"},
		{"lazy", "run", "run", Failed, "left every parameter as it was"},
		{"ascends", "export_gradient", "export_gradient", Failed, "100 of 100 elements differ"},
		{"nan", "evaluate", "evaluate", Failed, "is NaN"},
		{"takes-all", "restore", "save, restore", Failed, "goes on otherwise"},
		{"takes-all", "restore", "restore refuses", Failed, "was taken"},
		{"fail", "save", "save, restore", Failed, "the data are"},
	} {
		t.Run(c.in+"/"+c.how, func(t *testing.T) {
			r, err := CheckLibrary(t.Context(), CheckConfig{Library: libraryConfig("bad",
				fmt.Sprintf(`{"size":100, "how":%q, "in":%q}`, c.how, c.in))})
			if got := verdicts(r)[c.check]; err != nil || r.OK || got.Verdict != c.verdict ||
				!strings.Contains(got.Detail, c.detail) {
				t.Errorf("%v, among %v, %v", got, r.Lines, err)
			}
		})
	}
}

func TestExactTypes(t *testing.T) {
	for types, want := range map[string]bool{"16 f32": true, "16 f32, 1 bf16": false, "2 f16": false} {
		if exact(types) != want {
			t.Errorf("%s: exact is %v", types, !want)
		}
	}
}

// TestDeafLibrary: a run that does not end when it is cancelled is found.
func TestDeafLibrary(t *testing.T) {
	deaf := libraryConfig("bad", `{"size":10, "how":"deaf", "in":"run"}`)
	c := &checker{ctx: t.Context(), cfg: CheckConfig{
		Library: deaf, Steps: 2,
		CancelWithin: 200 * time.Millisecond,
	}.withDefaults()}
	p, err := Open(t.Context(), deaf)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c.start = make([]float32, 10)
	if err := c.cancel(p); err == nil || err.Error() != "the run has not ended within 200ms" {
		t.Errorf("got %v, %v", err, c.report.Lines)
	}
}

// TestCompare: two trainers that pull elsewhere are told apart, tensor by tensor, unless so much is
// allowed.
func TestCompare(t *testing.T) {
	t.Parallel()
	run := func(cfg CheckConfig, other string) CheckReport {
		cfg.Library = libraryConfig("bowl", `{"size":50, "target":1}`)
		cfg.Against = against(libraryConfig("bowl", other))
		r, err := CheckLibrary(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	line := "against " + libraryConfig("bowl", "").Path
	far := run(CheckConfig{}, `{"size":50, "target":2}`)
	if far.OK || verdicts(far)[line].Verdict != Failed || len(far.Comparisons[0].Tensors) != 2 ||
		far.Comparisons[0].Tensors[0].Absolute < 0.1 {
		t.Errorf("%+v", far)
	}
	if near := run(CheckConfig{Absolute: 10}, `{"size":50, "target":2}`); !near.OK {
		t.Errorf("%+v", near)
	}
	if near := run(CheckConfig{Relative: 100}, `{"size":50, "target":1.5}`); !near.OK {
		t.Errorf("%+v", near)
	}
	if other := run(CheckConfig{}, `{"size":51}`); other.OK ||
		!strings.Contains(verdicts(other)[line].Detail,
			`another layout: tensor 0 is "x" [49] here and "x" [50] there`) {
		t.Errorf("%+v", other)
	}
}
