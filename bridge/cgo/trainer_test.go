//go:build cgo && unix

package cgo

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestWholeLife goes through everything that a node asks of a trainer, and compares it with what
// the bowl computes.
func TestWholeLife(t *testing.T) {
	t.Parallel()
	p := open(t, "bowl", `{"size": 5000, "target": 2}`)
	if about := p.About(); about.Name != "bowl 1.0" || about.Types != "2 f32" || !about.ExportsGradient ||
		!about.Evaluates || !about.Saves {
		t.Errorf("about %+v", about)
	}
	want := trainer.Layout{{Name: "x", Shape: []uint64{4999}}, {Name: "bias"}}
	if d := p.Layout().Diff(want); d != "" {
		t.Error(d)
	}
	start, local, err := p.MakeVectors(5000)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := p.MakeVectors(5000); err != nil || &again[0] == &start[0] || len(again) != 5000 {
		t.Errorf("the same vectors for a second node: %v", err)
	}
	copy(start, started(t, p))
	if start[0] == start[1] || start[17] != bowlInit(7, 17) {
		t.Errorf("begins with %v", start[:2])
	}
	stats, err := p.Train(t.Context(), task(1, 3))
	if err != nil || stats.Steps != 3 || stats.Samples != 3 || stats.Tokens != 30 || stats.Loss <= 0 ||
		stats.GradNorm <= 0 {
		t.Fatalf("%+v, %v", stats, err)
	}
	checkExports(t, p, start, local)
	loss, err := p.Evaluate(t.Context())
	if err != nil || !(loss > 0 && loss < stats.Loss) {
		t.Errorf("held-out loss %v after a training loss of %v, %v", loss, stats.Loss, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Load(t.Context(), start); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// bowlInit is the bowl's initial parameter i.
func bowlInit(seed, i uint64) float32 {
	return float32((seed+i+1)*0x9e3779b97f4a7c15>>40) / (1 << 24)
}

// checkExports compares the exports, whole and by ranges, with three steps of the bowl from start,
// into the shared vector and others.
func checkExports(t *testing.T, p Library, start, local []float32) {
	t.Helper()
	ctx := t.Context()
	want := make([]float32, len(start))
	for i, x := range start {
		for v, n := float32(0), 0; n < 3; n++ {
			v = float32(float32(0.5*v) + (x - 2))
			x -= float32(0.1 * v)
		}
		want[i] = x
	}
	params, part := make([]float32, len(start)), make([]float32, 100)
	if err := errors.Join(p.Export(ctx, params), p.ExportRange(ctx, 900, part)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(params, want) || !slices.Equal(part, want[900:1000]) {
		t.Error("the parameters exported are not the bowl's")
	}
	gradient := make([]float32, len(start))
	for i := range gradient {
		gradient[i] = start[i] - want[i]
	}
	for _, dst := range [][]float32{local, params} {
		at := 0
		err := p.ExportGradient(ctx, start, dst, func(begin, end int) error {
			if begin != at || end <= begin {
				t.Errorf("ready [%d, %d) after %d", begin, end, at)
			}
			at = end
			return nil
		})
		if err != nil || at != len(dst) || !slices.Equal(dst, gradient) {
			t.Errorf("the pseudo-gradient, ready up to %d, is wrong: %v", at, err)
		}
	}
	if err := errors.Join(p.GradientRange(ctx, 4000, part), p.LoadRange(ctx, 4999, []float32{5}),
		p.ExportRange(ctx, 4950, part[:50])); err != nil || part[49] != 5 || part[50] != gradient[4050] {
		t.Errorf("a range of the gradient, or the load of one element: %v", err)
	}
	far := math.MaxInt - 50 // where begin and count add up to less than 0
	err := errors.Join(p.LoadRange(ctx, 4999, part), p.ExportRange(ctx, -1, part), p.LoadRange(ctx, far, part),
		p.ExportRange(ctx, far, part), p.Init(ctx, part), p.ExportGradient(ctx, part, part, nil))
	if err == nil || strings.Count(err.Error(), "of a model of 5000") != 6 {
		t.Errorf("out of range: %v", err)
	}
}

// TestExportsInParts: of more elements than one range has, the first are handed over before the
// last are there.
func TestExportsInParts(t *testing.T) {
	const size = exportStep + 5
	for _, how := range []string{"", "no-gradient"} {
		cfg := config(t, "bad", fmt.Sprintf(`{"size": %d}`, size))
		p := openWith(t, cfg, how)
		start, local, err := p.MakeVectors(size)
		if err != nil {
			t.Fatal(err)
		}
		copy(start, started(t, p))
		if _, err := p.Train(t.Context(), task(1, 1)); err != nil {
			t.Fatal(err)
		}
		var parts []int
		err = p.ExportGradient(t.Context(), start, local, func(begin, end int) error {
			parts = append(parts, begin, end)
			return nil
		})
		if err != nil || !slices.Equal(parts, []int{0, exportStep, exportStep, size}) &&
			!slices.Equal(parts, []int{0, size}) {
			t.Errorf("ranges %v, %v", parts, err)
		}
		for _, i := range []int{0, exportStep - 1, exportStep, size - 1} {
			if x := start[i] - float32(0.1*(start[i]-3)); local[i] != start[i]-x {
				t.Errorf("%s: element %d is %v, want %v", how, i, local[i], start[i]-x)
			}
		}
		err = p.ExportGradient(t.Context(), start, local, func(int, int) error { return trainer.ErrNotFinite })
		if !errors.Is(err, trainer.ErrNotFinite) || !strings.HasPrefix(err.Error(), cfg.Path+": export_") {
			t.Errorf("an error of ready became %v", err)
		}
		if err := p.Load(t.Context(), start); err != nil {
			t.Errorf("after an export that was not wanted any more: %v", err)
		}
	}
}

// openWith opens a library whose faults begin before its configuration is read.
func openWith(t *testing.T, cfg Config, how string) Library {
	t.Helper()
	t.Setenv("P2PDILOCO_BAD", how)
	return openConfig(t, cfg)
}

// TestPrivateStateContinues: a new process that restores goes on with the same bits; one that does
// not, with others.
func TestPrivateStateContinues(t *testing.T) {
	t.Parallel()
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "state")
	train := func(p Library, slot uint64) []float32 {
		if _, err := p.Train(ctx, task(slot, 2)); err != nil {
			t.Fatal(err)
		}
		x := make([]float32, 1000)
		if err := p.Export(ctx, x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	first := open(t, "bowl", "")
	started(t, first)
	middle := train(first, 1)
	if err := first.Save(ctx, file); err != nil {
		t.Fatal(err)
	}
	want := train(first, 2)
	for _, restored := range []bool{true, false} {
		p := open(t, "bowl", "")
		if restored {
			if err := p.Restore(ctx, file); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Load(ctx, middle); err != nil {
			t.Fatal(err)
		}
		if got := train(p, 2); slices.Equal(got, want) != restored {
			t.Errorf("restored: %v, the same bits: %v", restored, !restored)
		}
	}
	other := open(t, "bowl", `{"size": 50}`)
	if err := other.Restore(ctx, file); err == nil ||
		!strings.HasSuffix(err.Error(), ": restore: the file is not of this model") {
		t.Errorf("a state of another model: %v", err)
	}
	started(t, other) // the trainer stands
}

// TestWhatARunIsTold: the library is told who takes part, and a norm that it does not know is none.
func TestWhatARunIsTold(t *testing.T) {
	t.Parallel()
	p := open(t, "bad", `{"size":100, "how":"members", "in":"run"}`)
	started(t, p)
	two := task(1, 1)
	two.Members = []trainer.PeerID{"you", "me"}
	_, err := p.Train(t.Context(), two)
	want := fmt.Sprintf("rank 1 of 2: %s, %s", two.Members[0], two.Members[1])
	if err == nil || !strings.HasSuffix(err.Error(), "run for slot 1: "+want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := p.Train(t.Context(), trainer.Task{Steps: 1, Self: "me"}); err == nil {
		t.Error("a task for a stranger was taken")
	}
	p = open(t, "bad", `{"size":100, "how":"nan-norm", "in":"run"}`)
	started(t, p)
	if stats, err := p.Train(t.Context(), task(1, 1)); err != nil || stats.GradNorm != 0 || stats.Tokens != 10 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestUnsupported: what a library lacks is said so, and a node does without.
func TestUnsupported(t *testing.T) {
	p := openWith(t, config(t, "bad", ""), "no-evaluate no-save no-gradient")
	_, err := p.Evaluate(t.Context())
	for _, err := range []error{err, p.Save(t.Context(), "x"), p.Restore(t.Context(), "x")} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
	if about := p.About(); about.Name != "bad 1.0" || about.Evaluates || about.Saves || about.ExportsGradient {
		t.Errorf("about %+v", about)
	}
}

// TestABI: no size, place or number of the header has changed: libraries that were compiled against
// an older one run as they are.
func TestABI(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "abi")
	if out, err := exec.CommandContext(t.Context(), "cc", "-I../include", "-o", program, "testdata/abi.c").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := exec.CommandContext(t.Context(), program).Output()
	want, unread := os.ReadFile("testdata/abi.txt")
	if err != nil || unread != nil || !slices.Equal(got, want) {
		t.Errorf("%s, %v, %v", got, err, unread)
	}
}
