package replica

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// What a node takes in vectors of D float32, and with an eighth of one for garbage and 128 MiB for
// what does not grow.
func TestMemoryIsOfTheSpec(t *testing.T) {
	const d = 1 << 30
	layout := trainer.Layout{{Name: "x", Shape: []uint64{d}}}
	for _, c := range []struct {
		spec spec.Spec
		want float64
	}{
		{spec.Spec{}, 6},
		{spec.Spec{Outer: "sgd", Momentum: "0"}, 5},
		{spec.Spec{Outer: "adam"}, 7},
		{spec.Spec{Mode: "delayed"}, 6}, // without momentum
		{spec.Spec{Mode: "eager", Momentum: "0.9"}, 8},
		{spec.Spec{Mode: "async", Outer: "adam"}, 10},
		{spec.Spec{Mode: "streaming", Fragments: 8}, 2.375}, // the state lies in files
		{spec.Spec{Codec: "int8"}, 7 + 3*260./1024},
		{spec.Spec{Codec: "sign"}, 7 + 2*132./4096 + 132./1024},
		{spec.Spec{OutcomeCodec: "bf16"}, 6.5}, // it is decoded to a vector
		{spec.Spec{Codec: "topk", OutcomeCodec: "f32"}, 6 + 2*81./16384},
		{spec.Spec{Mode: "streaming", Fragments: 8, Codec: "bf16"}, 3.25 + 3./16},
	} {
		c.spec.Layout = layout
		live, all := LiveMemory(c.spec.Settled()), NodeMemory(c.spec.Settled())
		if got := float64(live) / 4 / d; got < c.want-.001 || got > c.want+.001 {
			t.Errorf("%+v: %.4f vectors, want %.4f", c.spec, got, c.want)
		}
		if all != live+d/2+128<<20 {
			t.Errorf("%+v: %d bytes, of which %d are live", c.spec, all, live)
		}
	}
}

// What does not fit is refused with the figure, and a mode is named where it fits and the run may
// have it.
func TestFitsNamesWhatFits(t *testing.T) {
	layout := trainer.Layout{{Name: "x", Shape: []uint64{1.2e9}}}
	const needs = "a node of a model of 1200000000 elements needs 30 GB, this machine or its cgroup has "
	for _, c := range []struct {
		spec   spec.Spec
		memory uint64
		want   string // all of it; empty: it fits
	}{
		{spec.Spec{}, 0, ""},
		{spec.Spec{}, 43e9, ""},
		{spec.Spec{}, 28e9, needs + "28 GB: a run with --mode streaming --fragments 2 needs 18 GB"},
		{spec.Spec{}, 12e9, needs + "12 GB: a run with --mode streaming --fragments 16 needs 11 GB"},
		{spec.Spec{}, 10e9, needs + "10 GB"},
		{spec.Spec{InnerSteps: 4}, 13e9, needs + "13 GB"},
	} {
		c.spec.Name, c.spec.Layout = "large", layout
		err, text := CheckMemory(c.spec.Settled(), c.memory), ""
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%+v on %d: %s", c.spec, c.memory, text)
		}
	}
}
