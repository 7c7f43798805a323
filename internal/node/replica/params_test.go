package replica

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// What Validate lets pass, the parts must accept.
func TestLimitsOfTheSpecAreThoseOfTheParts(t *testing.T) {
	for _, s := range []spec.Spec{
		{OuterLR: "0.000001", Momentum: "0.9999"},
		{OuterLR: "100", Momentum: "0", Outer: "sgd"},
		{TrimPermille: 499, Frame: 1 << 18},
		{Frame: 1024, Aggregator: "median"},
		{Outer: "adam", Beta2: "0.0001"},
		{Outer: "adam", Beta2: "0.999999", Momentum: "0"},
		{Outer: "delayed_nesterov", DNEvery: 1 << 20},
		{Codec: "int8", Frame: 1 << 10},
		{Codec: "sign", Frame: 1 << 10},
	} {
		s.Name, s.Layout = "edge", trainer.Layout{{Name: "x", Shape: []uint64{5000}}}
		s = s.Settled()
		if err := errors.Join(s.Validate(), Reduction(s).Validate()); err != nil {
			t.Error(err)
		}
		if _, err := outeropt.New(s.OuterConfig(), s.Layout.Elements()); err != nil {
			t.Error(err)
		}
	}
}

// The default of clip is the aggregator's.
func TestDefaultOfClipIsTheAggregators(t *testing.T) {
	for _, a := range []allreduce.Aggregator{allreduce.Mean, allreduce.TrimmedMean, allreduce.Median} {
		layout := trainer.Layout{{Name: "x", Shape: []uint64{5000}}}
		s := spec.Spec{Name: "x", Layout: layout, Aggregator: string(a)}.Settled()
		if got := Reduction(s).Clip; got != (a != allreduce.Mean) {
			t.Errorf("%s: clip %v", a, got)
		}
	}
}
