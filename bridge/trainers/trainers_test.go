//go:build cgo

package trainers_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// pair is the built-in trainer and the C one with the same configuration and text.
type pair struct {
	cfg    builtin.Config
	corpus builtin.CorpusConfig
}

// start makes both trainers.
func (p pair) start(t testing.TB) (ours, theirs trainer.Trainer) {
	t.Helper()
	corpus, err := builtin.OpenCorpus(t.Context(), p.corpus)
	must(t, err)
	b, err := builtin.New(p.cfg, corpus)
	must(t, err)
	return b, open(t, p.config(t), p.cfg.Seed)
}

// config is the C trainer's configuration. Where the built-in trainer says "none" with a negative
// value, this may be said with 0.
func (p pair) config(t testing.TB) string {
	c, d := p.cfg, p.corpus
	set := map[string]any{
		"layers": c.Layers, "width": c.Width, "heads": c.Heads, "context": c.Context, "batch": c.Batch,
		"held_out": c.HeldOut, "threads": c.Threads, "max_bytes": d.MaxBytes, "hold_out": d.HoldOut,
		"warm_up":       c.WarmUp,
		"learning_rate": c.LearningRate, "beta1": c.Beta1, "beta2": c.Beta2, "epsilon": c.Epsilon, "data": d.Paths,
		"weight_decay": c.WeightDecay, "clip": c.Clip,
	}
	for key, value := range set {
		if reflect.ValueOf(value).IsZero() {
			delete(set, key)
		} else if f, is := value.(float64); is {
			set[key] = max(f, 0)
		}
	}
	text, err := json.Marshal(set)
	must(t, err)
	return string(text)
}

func train(t *testing.T, tr trainer.Trainer, task trainer.Task) trainer.Stats {
	t.Helper()
	stats, err := tr.Train(t.Context(), task)
	must(t, err)
	return stats
}

func export(t *testing.T, tr trainer.Trainer) []float32 {
	t.Helper()
	v := make([]float32, tr.Layout().Elements())
	must(t, tr.Export(t.Context(), v))
	return v
}

// initialize loads both with ours' initial parameters, which theirs must give bit for bit.
func initialize(t *testing.T, ours, theirs trainer.Trainer) {
	t.Helper()
	if a, b := fmt.Sprint(ours.Layout()), fmt.Sprint(theirs.Layout()); a != b {
		t.Fatalf("layout %s\nwant %s", b, a)
	}
	want := make([]float32, ours.Layout().Elements())
	got := slices.Clone(want)
	for tr, v := range map[trainer.Trainer][]float32{ours: want, theirs: got} {
		must(t, tr.Init(t.Context(), v))
	}
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			t.Fatalf("initial parameter %d is %v, want %v", i, got[i], want[i])
		}
	}
	for _, tr := range []trainer.Trainer{ours, theirs} {
		must(t, tr.Load(t.Context(), want))
	}
}

// tolerance is how far a tensor may be off, as a share of its norm.
const tolerance = 1e-5

// compare fails where a tensor of theirs is off by more than the tolerance. It allows keyBias to
// the bias that holds the key's.
func compare(t *testing.T, ours, theirs trainer.Trainer, keyBias float64) {
	t.Helper()
	want, got := export(t, ours), export(t, theirs)
	worst, at := 0.0, ""
	for _, tensor := range ours.Layout() {
		n := tensor.Elements()
		wrong, norm := 0.0, 0.0
		for i := range n {
			wrong += math.Pow(float64(want[i])-float64(got[i]), 2)
			norm += math.Pow(float64(want[i]), 2)
		}
		want, got = want[n:], got[n:]
		off, most := math.Sqrt(wrong/norm), tolerance
		if strings.HasSuffix(tensor.Name, "attn.qkv.bias") {
			most = keyBias
		} else if off > worst {
			worst, at = off, tensor.Name
		}
		if !(off <= most) {
			t.Errorf("%s is off by %.3g of its norm %.3g, %.3g is allowed", tensor.Name, off, math.Sqrt(norm), most)
		}
	}
	t.Logf("tensors agree to %.2g of their norm (%s)", worst, at)
}

// compareLosses compares what both measure on the held-out text.
func compareLosses(t *testing.T, ours, theirs trainer.Trainer) {
	t.Helper()
	var loss [2]float64
	for i, tr := range []trainer.Trainer{ours, theirs} {
		var err error
		if loss[i], err = tr.(trainer.Evaluator).Evaluate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if off := math.Abs(loss[0] - loss[1]); !(off < 1e-4) {
		t.Errorf("held-out loss %v, want %v", loss[1], loss[0])
	} else {
		t.Logf("held-out loss %.5f, off by %.2g", loss[0], off)
	}
}

// TestStepsAgree compares the two trainers tensor by tensor after one and after ten steps of the
// same task. No loss depends on the bias of the attention's keys: its gradient is rounding and
// nothing else, and as AdamW divides by a gradient's size it moves all the same. With a larger
// epsilon it stays where it is, and agrees like the others.
func TestStepsAgree(t *testing.T) {
	t.Parallel()
	text := []string{write(t, manyFiles())}
	odd := builtin.Config{Layers: 3, Width: 20, Heads: 5, Context: 13, Batch: 7, HeldOut: 10, Seed: 1 << 63, Threads: 2}
	smooth, smoothOdd := builtin.Config{Epsilon: 1e-3, Seed: 3, Batch: 4}, odd
	smoothOdd.Epsilon, smoothOdd.WeightDecay, smoothOdd.Clip, smoothOdd.WarmUp = 1e-3, -1, -1, 5
	for name, c := range map[string]struct {
		cfg     builtin.Config
		keyBias float64
	}{
		"default":        {builtin.Config{Seed: 1}, 1e-2},
		"default smooth": {smooth, 1e-5},
		"odd":            {odd, 1e-2},
		"odd smooth":     {smoothOdd, 1e-5},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair{cfg: c.cfg, corpus: builtin.CorpusConfig{Paths: text}}.start(t)
			initialize(t, ours, theirs)
			compareLosses(t, ours, theirs)
			for round, steps := range []int{1, 9} {
				task := trainer.Task{
					Slot: uint64(1 + round), Steps: steps, Seed: 1 << 40, Self: members(3)[1],
					Members: members(3),
				}
				a, b := train(t, ours, task), train(t, theirs, task)
				if a.Steps != b.Steps || a.Samples != b.Samples || a.Tokens != b.Tokens ||
					math.Abs(a.Loss-b.Loss) > 1e-4 ||
					math.Abs(a.GradNorm/b.GradNorm-1) > 1e-3 {
					t.Errorf("statistics %+v, want %+v", b, a)
				}
				compare(t, ours, theirs, c.keyBias)
				compareLosses(t, ours, theirs)
			}
		})
	}
}

// tiny is a model on which the loss of the first batch shows at once if it was another batch.
var tiny = builtin.Config{Width: 8, Heads: 1, Context: 8, Batch: 32, HeldOut: 64}

// sameData trains one step of both and compares losses: the same bytes were read, divided and
// drawn.
func sameData(t *testing.T, p pair, task trainer.Task) {
	t.Helper()
	ours, theirs := p.start(t)
	initialize(t, ours, theirs)
	compareLosses(t, ours, theirs)
	if a, b := train(t, ours, task), train(t, theirs, task); math.Abs(a.Loss-b.Loss) > 1e-6 {
		t.Errorf("loss of the first batch %v, want %v", b.Loss, a.Loss)
	}
}

// TestTheSameText: files that are passed over, a few large files, a text cut at max_bytes, roots
// within each other, and the default.
func TestTheSameText(t *testing.T) {
	t.Parallel()
	files := manyFiles()
	for name, text := range map[string]string{
		".hidden": "hidden", "testdata/x.txt": "testdata", "a/vendor/x.txt": "vendor", "a/.git/x": "git",
		"binary": "a\x00b", "empty": "",
		"b/vendor": "no folder",
	} {
		files[name] = strings.Repeat(text, 50)
	}
	many, few := write(t, files), write(t, map[string]string{
		"a.txt": prose(1, 30000), "b.txt": prose(2, 5000),
		"ü.txt": prose(3, 9000),
	})
	must(t, os.Symlink(filepath.Join(few, "a.txt"), filepath.Join(many, "link.txt")))
	inside := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(many, inside))
	for name, corpus := range map[string]builtin.CorpusConfig{
		"many":    {Paths: []string{many}},
		"few":     {Paths: []string{few}},
		"cut":     {Paths: []string{many}, MaxBytes: 50001, HoldOut: 3},
		"overlap": {Paths: []string{filepath.Join(many, "dir3"), many, filepath.Join(few, "a.txt"), inside}},
		"default": {MaxBytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			sameData(t, pair{cfg: tiny, corpus: corpus},
				trainer.Task{Slot: 9, Steps: 1, Seed: 5, Self: members(2)[0], Members: members(2)})
		})
	}
}

// TestTheSameParts: far along in the data, in the middle of a part, over its end, and where a batch
// reaches from one epoch into the next.
func TestTheSameParts(t *testing.T) {
	t.Parallel()
	p := pair{cfg: tiny, corpus: builtin.CorpusConfig{Paths: []string{write(t, manyFiles())}}}
	for _, task := range []trainer.Task{
		{Part: 0, PartSteps: 2},
		{Part: 1 << 40, PartSteps: 500},
		{Part: 7, PartSteps: 500, Done: 123},
		{Part: 7, PartSteps: 5, Done: 4},
		{Part: 0, PartSteps: 1 << 20, Done: 1000},
		{}, // no parts: by slot and rank
	} {
		task.Slot, task.Steps, task.Seed, task.Self, task.Members = 1<<50, 2, 99, members(3)[1], members(3)
		sameData(t, p, task)
	}
}
