package spec

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Settled returns the spec with every field filled: the values given, and defaults for the rest.
func (s Spec) Settled() Spec {
	given := s
	s.Discount = slices.Clone(s.Discount)
	if s.Mode == ModeAsync {
		s.asyncDefaults()
	}
	if s.sparse() {
		s.sparseDefaults()
	}
	if s.Momentum == "" && s.withoutMomentum() {
		s.Momentum = "0"
	}
	// a step of Adam has the rate's size, whatever the pseudo-gradient's size is
	if s.OuterLR == "" && s.Outer == outeropt.Adam {
		s.OuterLR = defaultAdamLR
	}
	s.Kernel = cmp.Or(s.Kernel, kernelOf(s.Outer))
	for _, f := range table {
		if f.Text(s) == "" && f.Default != "" {
			_ = f.Set(&s, f.Default) // a test says that all defaults parse
		}
	}
	if given.FragmentDelay == "" && s.Streams() {
		s.FragmentDelay = strconv.FormatUint(s.defaultDelay(), 10)
	}
	if s.Clip == "" {
		s.Clip = "off"
		if s.Aggregator == "trimmed_mean" || s.Aggregator == "median" { // as allreduce has it
			s.Clip = "on"
		}
	}
	if s.Trust == "" {
		s.Trust = TrustByzantine // strangers may join, unless who asks for a ring trusts them
		if s.Access == AccessPrivate || s.Schedule == "ring" {
			s.Trust = TrustCrash
		}
	}
	if s.MaxWeightRatio == "" {
		s.MaxWeightRatio = "0"
		if s.Byzantine() {
			s.MaxWeightRatio = defaultWeightRatio
		}
	}
	if s.AuditSamples == "" {
		s.AuditSamples = "0"
		if s.Byzantine() {
			s.AuditSamples = defaultSamples
		}
	}
	if s.Frame == 0 {
		s.Frame = max(defaultFrame(s.Layout.Elements()/s.Fragments), s.blockElements())
	}
	return s
}

// withoutMomentum says whether the default is no momentum. On steps that come a slot late momentum
// costs several percent. Delayed Nesterov is made for them.
func (s Spec) withoutMomentum() bool {
	return s.Outer == outeropt.SGD || s.Overlaps() && s.Outer != outeropt.DelayedNesterov
}

// asyncDefaults fills in the defaults that mode async has of its own.
func (s *Spec) asyncDefaults() {
	// late steps cost least without momentum (docs/why/benchmarks.md)
	s.Outer = cmp.Or(s.Outer, outeropt.SGD)
	s.Pace = cmp.Or(s.Pace, PaceDyLU)
	if s.Outer == outeropt.DelayedNesterov {
		s.Momentum = cmp.Or(s.Momentum, "0.6")
	}
	if len(s.Discount) == 0 {
		s.Discount = []uint64{1000, 500, 333, 250}
	}
}

// sparse says whether contributions are of some values alone.
func (s Spec) sparse() bool { return s.topK() > 0 }

// topK returns how many values of a block contributions in topk have; 0: the codec is another one.
func (s Spec) topK() int {
	c, _ := codec.New(s.Codec)
	return c.Values
}

// sparseDefaults fills in the defaults of codec topk: those of SparseLoCo (arXiv 2508.15706), error
// feedback being its momentum, and an outcome that has room for the values of all.
func (s *Spec) sparseDefaults() {
	s.Outer, s.OuterLR = cmp.Or(s.Outer, outeropt.SGD), cmp.Or(s.OuterLR, "1")
	s.Aggregator, s.Clip = cmp.Or(s.Aggregator, "mean"), cmp.Or(s.Clip, "on")
	if s.OutcomeCodec == "" {
		s.OutcomeCodec = codec.Int4
		if union := uint64(s.topK()) * max(4, s.StartPeers); union <= kernel.MaxTopK {
			s.OutcomeCodec = codec.FormatTopK(int(union), 4)
		}
	}
}

// blockElements is the number of elements that both codecs encode as a unit.
func (s Spec) blockElements() (elements uint64) {
	in, err1 := codec.New(s.Codec)
	out, err2 := codec.NewOutcome(s.Codec, s.OutcomeCodec)
	if err1 != nil || err2 != nil {
		return 0
	}
	return uint64(max(in.Block, out.Block))
}

// defaultDelay is a tenth of the inner steps, or as much as there is room for. What is trained in a
// fragment until it lands is lost.
func (s Spec) defaultDelay() uint64 { return min(max(1, s.InnerSteps/10), s.mostDelay()) }

func defaultFrame(elements uint64) uint64 {
	f := uint64(defaultMaxFrame)
	for f > MinFrame && f*framesWanted > elements {
		f /= 2
	}
	return f
}
