package builtin

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

var small = Config{Width: 16, Heads: 2, Context: 16, Batch: 16, HeldOut: 40, Seed: 5}

func task(slot uint64, self trainer.PeerID, steps int) trainer.Task {
	return trainer.Task{Slot: slot, Steps: steps, Self: self, Members: []trainer.PeerID{"a", "b"}}
}

func train(t *testing.T, tr *Trainer, task trainer.Task) trainer.Stats {
	t.Helper()
	stats, err := tr.Train(t.Context(), task)
	must(t, err)
	return stats
}

func export(t *testing.T, tr *Trainer) []float32 {
	t.Helper()
	v := make([]float32, tr.Layout().Elements())
	must(t, tr.Export(t.Context(), v))
	return v
}

func evaluate(t *testing.T, tr *Trainer) float64 {
	t.Helper()
	loss, err := tr.Evaluate(t.Context())
	must(t, err)
	return loss
}

func TestTrainingLearns(t *testing.T) {
	tr := newTestTrainer(t, small)
	first := evaluate(t, tr)
	if math.Abs(first-math.Log(Vocabulary)) > 0.7 {
		t.Errorf("held-out loss %.2f before training, want near ln 256 = 5.55", first)
	}
	stats := train(t, tr, task(1, "a", 150))
	if stats.Steps != 150 || stats.Samples != 150*16 || stats.Tokens != 150*16*16 || stats.Elapsed <= 0 {
		t.Errorf("statistics %+v", stats)
	}
	last := evaluate(t, tr)
	t.Logf("held-out loss %.3f -> %.3f, mean training loss %.3f", first, last, stats.Loss)
	if last > 1.5 || stats.Loss < last || stats.Loss > first {
		t.Errorf("held-out loss %.3f after training (mean training loss %.3f), want below 1.5", last, stats.Loss)
	}
	if again := evaluate(t, tr); again != last {
		t.Errorf("measured again: %v, before %v", again, last)
	}
}

// Two trainers given the same tasks and anchors hold the same bits, whatever their threads, and
// whatever an evaluation, which has a larger batch, left in the buffers; another peer's differ.
func TestTrainingIsDeterministic(t *testing.T) {
	run := func(self trainer.PeerID, threads int) []float32 {
		cfg := small
		cfg.Threads = threads
		tr := newTestTrainer(t, cfg)
		if threads > 1 {
			evaluate(t, tr)
		}
		train(t, tr, task(1, self, 3))
		anchor := export(t, tr)
		for i := range anchor {
			anchor[i] *= 0.99
		}
		must(t, tr.Load(t.Context(), anchor))
		train(t, tr, task(2, self, 3))
		return export(t, tr)
	}
	a := run("a", 1)
	if !slices.Equal(a, run("a", 1)) {
		t.Error("two runs differ")
	}
	if !slices.Equal(a, run("a", 3)) {
		t.Error("threads change the result")
	}
	if slices.Equal(a, run("b", 1)) {
		t.Error("two peers train alike")
	}
}

func TestInitIsTheSameOnEveryPeer(t *testing.T) {
	tr := newTestTrainer(t, small)
	live := export(t, tr)
	train(t, tr, task(1, "a", 2))
	fresh := make([]float32, len(live))
	must(t, tr.Init(t.Context(), fresh))
	if !slices.Equal(live, fresh) {
		t.Error("Init after training differs from the parameters a new trainer starts with")
	}
	if slices.Equal(fresh, export(t, tr)) {
		t.Error("Init replaced the live parameters, or training did nothing")
	}
	other := small
	other.Seed++
	if slices.Equal(fresh, export(t, newTestTrainer(t, other))) {
		t.Error("another seed gives the same parameters")
	}
}

// The initial bits are part of what peers may agree on: these were computed once and hold on every
// machine.
func TestInitialBits(t *testing.T) {
	p := newParams(small.WithDefaults().shape())
	p.initialize(1)
	sum, squares := 0.0, 0.0
	for _, v := range p.wte {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(p.wte))
	if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.02 || math.Abs(deviation/0.25-1) > 0.05 {
		t.Errorf("byte embeddings have mean %.3f and deviation %.3f, want 0 and 1/sqrt(16)", mean, deviation)
	}
	got := [3]uint32{
		math.Float32bits(p.wte[0]), math.Float32bits(p.wte[1]),
		math.Float32bits(p.blocks[0].down.weight[7]),
	}
	if want := [3]uint32{0x3e7c7100, 0x3e028a00, 0xbc0f78d2}; got != want {
		t.Errorf("initial bits %#x, want %#x", got, want)
	}
}

func TestTrainStopsWithItsContext(t *testing.T) {
	tr := newTestTrainer(t, small)
	before := export(t, tr)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stats, err := tr.Train(ctx, task(1, "a", 5))
	if !errors.Is(err, context.Canceled) || stats.Steps != 0 || !slices.Equal(before, export(t, tr)) {
		t.Errorf("error %v after %d steps", err, stats.Steps)
	}
	if _, err := tr.Evaluate(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Evaluate: error %v", err)
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	tr := newTestTrainer(t, small)
	bad := export(t, tr)
	bad[3] = float32(math.NaN())
	bad[len(bad)-1] = float32(math.NaN())
	must(t, tr.Load(t.Context(), bad))
	if _, err := tr.Train(t.Context(), task(1, "a", 2)); !errors.Is(err, ErrDiverged) {
		t.Errorf("Train: error %v", err)
	}
	if _, err := tr.Evaluate(t.Context()); !errors.Is(err, ErrDiverged) {
		t.Errorf("Evaluate: error %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	tiny := func(train, heldOut int) *Corpus {
		return &Corpus{train: make([]byte, train), heldOut: make([]byte, heldOut)}
	}
	if _, err := New(Config{Width: -1}, tiny(1000, 1000)); err == nil || !strings.Contains(err.Error(), "width") {
		t.Errorf("bad configuration: error %v", err)
	}
	for name, c := range map[string]*Corpus{"train on": tiny(2*33-1, 33), "held out": tiny(2*33, 32)} {
		if _, err := New(Config{}, c); !errors.Is(err, ErrNoData) || !strings.Contains(err.Error(), name) {
			t.Errorf("too small: error %v, want one about bytes %s", err, name)
		}
	}
	tr, err := New(Config{}, tiny(2*33, 33))
	if err != nil {
		t.Fatalf("just large enough: %v", err)
	}
	train(t, tr, task(1, "a", 1))
	evaluate(t, tr)
}

// A part is loaded and exported where it belongs, and what does not lie in the model is refused.
func TestPartsOfTheModel(t *testing.T) {
	tr := newTestTrainer(t, small)
	d := int(tr.Layout().Elements())
	before, after := make([]float32, d), make([]float32, d)
	got := make([]float32, 3)
	if err := errors.Join(tr.Export(t.Context(), before), tr.LoadRange(t.Context(), 5, []float32{7, 8, 9}),
		tr.ExportRange(t.Context(), 6, got), tr.Export(t.Context(), after)); err != nil {
		t.Fatal(err)
	}
	copy(before[5:], []float32{7, 8, 9})
	if !slices.Equal(after, before) || !slices.Equal(got, before[6:9]) {
		t.Errorf("elements 5 to 7 loaded, 6 to 8 are %v", got)
	}
	for _, begin := range []int{-1, d - 2, d, d + 1} {
		if tr.LoadRange(t.Context(), begin, got) == nil || tr.ExportRange(t.Context(), begin, got) == nil {
			t.Errorf("3 elements from %d on of %d", begin, d)
		}
	}
}
