//go:build cgo && unix

package cgo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// small is a model whose rows fill no warp. Its epsilon is large: no loss depends on the bias of
// the attention's keys, so its gradient is rounding and nothing else, and as AdamW divides by a
// gradient's size that bias would move all the same.
const small = `# comments and empty lines are passed over

layers 2
width 12
heads 3
context 11
batch 3
held_out 5
epsilon 1e-3
`

// startBuiltin makes the built-in trainer of the same configuration.
func startBuiltin(t *testing.T, config string, seed uint64) trainer.Trainer {
	t.Helper()
	c, texts, err := builtin.ParseConfig(config)
	must(t, err)
	c.Seed = seed
	corpus, err := builtin.OpenCorpus(t.Context(), texts)
	must(t, err)
	b, err := builtin.New(c, corpus)
	must(t, err)
	return b
}

// initialize loads both with the reference's initial parameters, which the other must give bit for
// bit.
func initialize(t *testing.T, reference, other trainer.Trainer) {
	t.Helper()
	if a, b := fmt.Sprint(reference.Layout()), fmt.Sprint(other.Layout()); a != b {
		t.Fatalf("layout %s\nwant %s", b, a)
	}
	want := make([]float32, reference.Layout().Elements())
	got := slices.Clone(want)
	must(t, reference.Init(t.Context(), want))
	must(t, other.Init(t.Context(), got))
	if !slices.Equal(want, got) {
		t.Fatal("other initial parameters")
	}
	must(t, reference.Load(t.Context(), want))
	must(t, other.Load(t.Context(), want))
}

func export(t *testing.T, tr trainer.Trainer) []float32 {
	t.Helper()
	v := make([]float32, tr.Layout().Elements())
	must(t, tr.Export(t.Context(), v))
	return v
}

func trainSteps(t *testing.T, tr trainer.Trainer, task trainer.Task) trainer.Stats {
	t.Helper()
	stats, err := tr.Train(t.Context(), task)
	must(t, err)
	return stats
}

func evaluate(t *testing.T, tr trainer.Trainer) float64 {
	t.Helper()
	loss, err := tr.(trainer.Evaluator).Evaluate(t.Context())
	must(t, err)
	return loss
}

// cudaTask is of steps on the first part of the data, for one of three members.
func cudaTask(steps int) trainer.Task {
	return trainer.Task{
		Slot: 1, Steps: steps, Seed: 1 << 40, Self: peerIDs(3)[1], Members: peerIDs(3), PartSteps: 500,
	}
}

// near fails where two numbers differ by more than a share of the first.
func near(t *testing.T, what string, want, got, tolerance float64) {
	t.Helper()
	if off := math.Abs(got/want - 1); !(off <= tolerance) {
		t.Errorf("%s is %v, want %v: off by %.2g, %.2g is allowed", what, got, want, off, tolerance)
	}
}

// sameModel fails where a tensor's change since before is off by more than a share of its norm.
func sameModel(t *testing.T, reference, other trainer.Trainer, before []float32, tolerance float64) {
	t.Helper()
	want, got := export(t, reference), export(t, other)
	worst, begin := 0.0, 0
	for _, tensor := range reference.Layout() {
		end := begin + int(tensor.Elements())
		wrong, norm := 0.0, 0.0
		for i := begin; i < end; i++ {
			wrong += math.Pow(float64(want[i])-float64(got[i]), 2)
			norm += math.Pow(float64(want[i])-float64(before[i]), 2)
		}
		begin = end
		off := math.Sqrt(wrong / norm)
		worst = max(worst, off)
		if !(off <= tolerance) {
			t.Errorf("%s is off by %.2g of its change %.2g, %.2g is allowed", tensor.Name, off, math.Sqrt(norm),
				tolerance)
		}
	}
	t.Logf("tensors agree to %.2g of their change", worst)
}

// TestCUDAStepsAgree compares the CUDA trainer with the built-in one: after one step and after
// more, every tensor's change, the loss, the gradient's norm and the held-out loss. Muon divides by
// small singular values, so it makes more of what is rounded.
func TestCUDAStepsAgree(t *testing.T) {
	t.Parallel()
	data := "data " + prose(t, 5000) + "\n"
	for _, c := range []struct {
		name, config string
		seed         uint64
		tolerance    float64
	}{
		{"small", small, 1 << 63, 5e-5},
		{
			"no decay, no clipping, no warm-up",
			small + "weight_decay 0\nclip 0\nwarm_up 0\nbeta1 0.8\nbeta2 0.9\nlearning_rate 1e-3\n", 7, 5e-5,
		},
		{"other texts", small + "hold_out 5\nmax_bytes 3000\n", 1, 5e-5},
		{
			"heads of one element, batches of one sequence",
			"width 35\nheads 35\ncontext 3\nbatch 1\nheld_out 2\nepsilon 1e-3\n", 1, 5e-5,
		},
		{"rows longer than a warp", "width 36\nheads 1\ncontext 40\nbatch 2\nheld_out 2\nepsilon 1e-3\n", 1, 5e-5},
		{"tf32", small + "dtype tf32\n", 1, 5e-3},
		{"bf16", small + "dtype bf16\n", 1, 3e-2},
		{"Muon", small + "optimizer muon\nclip 0.1\nwarm_up 2\n", 1, 5e-5},
		{
			"Muon, no decay, no clipping, no warm-up",
			small + "optimizer muon\nweight_decay 0\nclip 0\nwarm_up 0\n", 7, 5e-5,
		},
		{"Muon, tf32", small + "optimizer muon\ndtype tf32\n", 1, 2e-2},
		{"Muon, bf16", small + "optimizer muon\ndtype bf16\nwarm_up 0\n", 1, 6e-2},
	} {
		t.Run(c.name, func(t *testing.T) {
			reference, other := startBuiltin(t, c.config+data, c.seed), startCUDA(t, c.config+data, c.seed)
			initialize(t, reference, other)
			before := export(t, reference)
			for _, task := range []trainer.Task{cudaTask(1), {
				Slot: 2, Steps: 2, Seed: 1 << 40, Part: 1 << 30, PartSteps: 4, Done: 3, Members: peerIDs(1),
				Self: peerIDs(1)[0],
			}} {
				a, b := trainSteps(t, reference, task), trainSteps(t, other, task)
				if a.Steps != b.Steps || a.Samples != b.Samples || a.Tokens != b.Tokens {
					t.Errorf("statistics %+v, want %+v", b, a)
				}
				near(t, "the loss", a.Loss, b.Loss, c.tolerance/10)
				near(t, "the gradient's norm", a.GradNorm, b.GradNorm, c.tolerance)
				near(t, "the held-out loss", evaluate(t, reference), evaluate(t, other), c.tolerance/10)
				sameModel(t, reference, other, before, c.tolerance)
			}
		})
	}
}

// TestCUDATakesTheSameBatches: the loss of the first batch is that of the built-in trainer far
// along in the data, in the middle of a part and over its end, where a batch reaches from one epoch
// into the next, and without parts.
func TestCUDATakesTheSameBatches(t *testing.T) {
	t.Parallel()
	config := "width 8\nheads 1\ncontext 8\nbatch 5\nlearning_rate 1e-9\ndata " + prose(t, 4000)
	reference, other := startBuiltin(t, config, 3), startCUDA(t, config, 3)
	initialize(t, reference, other)
	for _, task := range []trainer.Task{
		{PartSteps: 1 << 20, Done: 1000},
		{Part: 1 << 40, PartSteps: 500},
		{Part: 7, PartSteps: 500, Done: 123},
		{Part: 7, PartSteps: 5, Done: 4},
		{Slot: 1 << 50},
	} {
		task.Steps, task.Seed, task.Self, task.Members = 2, 99, peerIDs(3)[1], peerIDs(3)
		want, got := trainSteps(t, reference, task).Loss, trainSteps(t, other, task).Loss
		near(t, fmt.Sprintf("the loss of %+v", task), want, got, 1e-6)
	}
}

// TestCUDARanges: parts of the model go to the device and come from it, straight from and to the
// memory that the library knows and by way of other memory.
func TestCUDARanges(t *testing.T) {
	t.Parallel()
	for _, dtype := range []string{"f32", "bf16"} {
		checkRanges(t, startCUDA(t, small+"dtype "+dtype+"\ndata "+prose(t, 5000), 1))
	}
}

// checkRanges fails where a part of the model or of the pseudo-gradient, which is what was loaded
// minus what is there, is another one.
func checkRanges(t *testing.T, tr Library) {
	t.Helper()
	ctx, n := t.Context(), int(tr.Layout().Elements())
	loaded, known, err := tr.MakeVectors(n)
	must(t, err)
	must(t, tr.Init(ctx, loaded))
	must(t, tr.Load(ctx, loaded))
	trainSteps(t, tr, cudaTask(2))
	live := export(t, tr)
	must(t, tr.Export(ctx, known))
	if !slices.Equal(known, live) || slices.Equal(live, loaded) {
		t.Error("the parameters depend on the memory that they go to")
	}
	const begin, end = 777, 3280
	for at := 1998; at < 2003; at++ { // over a border of pieces
		loaded[at], live[at] = float32(at), float32(at)
	}
	must(t, tr.LoadRange(ctx, 1998, loaded[1998:2001]))
	must(t, tr.LoadRange(ctx, 2001, slices.Clone(loaded[2001:2003])))
	want := make([]float32, end-begin)
	for i := range want {
		want[i] = loaded[begin+i] - live[begin+i]
	}
	for _, memory := range [][]float32{known[begin:end], make([]float32, end-begin)} {
		if must(t, tr.ExportRange(ctx, begin, memory)); !slices.Equal(memory, live[begin:end]) {
			t.Error("a part of the parameters is another one")
		}
		if must(t, tr.GradientRange(ctx, begin, memory)); !slices.Equal(memory, want) {
			t.Error("a part of the pseudo-gradient is another one")
		}
	}
	if !slices.Equal(export(t, tr), live) {
		t.Error("the parameters have changed")
	}
}

// TestCUDAStateGoesOn: training that goes on from a saved state gives the same bits, and a file
// that does not fit is refused and changes nothing.
func TestCUDAStateGoesOn(t *testing.T) {
	t.Parallel()
	t.Run("AdamW", func(t *testing.T) { goesOn(t, "adamw", "muon") })
	t.Run("Muon", func(t *testing.T) { goesOn(t, "muon", "adamw") })
}

// goesOn tests the state of one optimizer, and that the other's is refused.
func goesOn(t *testing.T, optimizer, another string) {
	t.Helper()
	small, data, folder := small+"optimizer "+optimizer+"\n", "data "+prose(t, 5000), t.TempDir()
	path, other := filepath.Join(folder, "state"), filepath.Join(folder, "other")
	first := startCUDA(t, small+data, 1)
	trainSteps(t, first, cudaTask(3))
	must(t, first.Save(t.Context(), path))
	model := export(t, first)
	trainSteps(t, first, cudaTask(3))
	want := export(t, first)

	again := startCUDA(t, small+data, 1)
	must(t, again.Restore(t.Context(), path))
	saved, err := os.ReadFile(path)
	must(t, err)
	wider := strings.Replace(small, "width 12", "width 15", 1)
	must(t, startCUDA(t, wider+data, 1).Save(t.Context(), other))
	larger, err := os.ReadFile(other)
	must(t, err)
	must(t, startCUDA(t, strings.Replace(small, optimizer, another, 1)+data, 1).Save(t.Context(), other))
	others, err := os.ReadFile(other)
	must(t, err)
	damaged := slices.Clone(saved)
	damaged[len(damaged)/2] ^= 1
	for want, bytes := range map[string][]byte{
		"it holds no state of this trainer": []byte("a file of somebody else, long enough to have a header"),
		"with optimizer " + optimizer:       others,
		"it is damaged or cut short":        saved[:len(saved)-1],
		"it is of a model with other sizes": larger,
		"it is damaged":                     damaged,
		"restore":                           nil,
		"cut short":                         append(slices.Clone(saved), 0),
	} {
		must(t, os.WriteFile(other, bytes, 0o644))
		if err := again.Restore(t.Context(), other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a file of %d bytes: %v, want %q", len(bytes), err, want)
		}
	}
	must(t, again.Load(t.Context(), model))
	trainSteps(t, again, cudaTask(3))
	if !slices.Equal(export(t, again), want) {
		t.Error("training went on otherwise")
	}
	if err := again.Save(t.Context(), filepath.Join(folder, "missing", "state")); err == nil ||
		!strings.Contains(err.Error(), "o such file") {
		t.Errorf("saved in a folder that is missing: %v", err)
	}
}

// TestCUDACancel: a run ends early with the steps that it did, and the trainer goes on.
func TestCUDACancel(t *testing.T) {
	t.Parallel()
	tr := startCUDA(t, small+"data "+prose(t, 5000), 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	stats, err := tr.Train(ctx, cudaTask(1_000_000))
	if !errors.Is(err, context.DeadlineExceeded) || stats.Steps >= 1_000_000 {
		t.Errorf("%+v, %v", stats, err)
	}
	trainSteps(t, tr, cudaTask(1))
}

// TestCUDAErrors: what is wrong with a configuration, a text or a GPU is said in one line that
// tells what to do.
func TestCUDAErrors(t *testing.T) {
	t.Parallel()
	data := prose(t, 5000)
	binary := filepath.Join(t.TempDir(), "binary")
	must(t, os.WriteFile(binary, make([]byte, 5000), 0o644))
	for _, c := range []struct{ config, want string }{
		{"layers 2", `no line "data PATH": name the text`},
		{"layers 2\nwidht 24", `line 2: unknown key "widht": a line is KEY VALUE; keys are data, dtype, optimizer, `},
		{`{"layers": 2}`, `line 1: unknown key "{"layers":"`},
		{"layers 2.5", `line 1: layers "2.5": a whole number from 1 to 64 is allowed`},
		{"width", `line 1: width "": a whole number`},
		{"\n\nlearning_rate fast", `line 3: learning_rate "fast": a number from`},
		{"beta1 nan", `line 1: beta1 "nan": a number from 0 to`},
		{"layers 1\nlayers 1", `line 2: layers is there twice`},
		{"dtype f16", `line 1: dtype "f16": f32, tf32 or bf16 is allowed`},
		{"optimizer sgd", `line 1: optimizer "sgd": adamw or muon is allowed`},
		{"width 24\nheads 5\ndata " + data, `width 24 is not a multiple of 5 heads`},
		{"width 4096\nlayers 64\ndata " + data, `too large: take a smaller width`},
		{"weight_decay 1", `weight_decay "1": a number from 0 to 0.99 is allowed`},
		{"data " + binary + "2", `No such file or directory: name a text file`},
		{"data " + t.TempDir(), `Is a directory: name a text file`},
		{"data " + binary, `bytes of it are 0: name a text file`},
		{"context 400\ndata " + data + " \r", `312 held out are too few for a context of 400: give more text`},
		{"device 5\ndata " + data, `cudaErrorInvalidDevice): there is no GPU of this number: set "device"`},
	} {
		refused(t, c.config, c.want)
	}
}

// refused fails unless a trainer of this configuration fails with one line that has these words:
// when it is made, or in a step.
func refused(t *testing.T, config, want string) {
	t.Helper()
	tr, err := openCUDA(t, config, 1)
	if err == nil {
		_, err = tr.Train(t.Context(), cudaTask(3))
		_ = tr.Close() // it must end, and that is all
	}
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v\nwant %q", err, want)
	}
}

// TestEveryCUDAError: whatever call to CUDA fails, an error names it and says what to do.
func TestEveryCUDAError(t *testing.T) {
	config := small + "data " + prose(t, 5000)
	for call, want := range map[string]string{
		"cudaSetDevice:1":        "cudaSetDevice: cudaErrorNoDevice (cudaErrorNoDevice): no GPU is to be seen",
		"cudaMalloc:9":           "out of GPU memory: ",
		"cudaHostAlloc:1":        "cudaHostAlloc: cudaErrorMemoryAllocation",
		"cudaStreamCreate:2":     "cudaStreamCreateWithFlags: ",
		"cublasCreate:1":         "cublasCreate: CUBLAS_STATUS_ALLOC_FAILED: take a smaller batch",
		"cublasGemm:5":           "cublasGemmStridedBatchedEx: CUBLAS_STATUS_EXECUTION_FAILED: a fault",
		"launch:40":              "cudaErrorInvalidValue",
		"cudaMemcpyAsync:5":      "cudaMemcpyAsync: cudaErrorIllegalAddress (cudaErrorIllegalAddress): a fault",
		"cudaEventSynchronize:2": "cudaEventSynchronize: cudaErrorIllegalAddress",
	} {
		t.Setenv("P2PDILOCO_EMULATE_FAIL", call)
		refused(t, config, want)
	}
	t.Setenv("P2PDILOCO_EMULATE_FAIL", "")
	t.Setenv("P2PDILOCO_EMULATE_MEMORY", "160000")
	refused(t, config, "out of GPU memory: ")
}

// TestCUDAWithoutPageLocks: memory that cannot be page-locked is no error.
func TestCUDAWithoutPageLocks(t *testing.T) {
	t.Setenv("P2PDILOCO_EMULATE_FAIL", "cudaHostRegister:1")
	checkRanges(t, startCUDA(t, small+"data "+prose(t, 5000), 1))
}
