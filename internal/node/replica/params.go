package replica

import (
	"strings"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Reduction are a settled spec's values that the all-reduce needs.
func Reduction(s spec.Spec) allreduce.Params {
	p := allreduce.Params{
		Fragments: s.FragmentElements(), FrameElements: int(s.Frame), Aggregator: allreduce.Aggregator(s.Aggregator),
		TrimPermille: int(s.TrimPermille), Clip: s.Clip == "on", Codec: s.Codec, Outcome: s.OutcomeCodec,
		MinPeers: int(s.MinPeers), WeightRatio: s.WeightRatio(), Empties: s.Byzantine(),
		Schedule: allreduce.Schedule(s.Schedule),
	}
	if s.Byzantine() { // auto plans no ring, where nobody can tell who changed a partial result
		p.Schedule = allreduce.Rotation
	}
	for _, d := range s.Discount {
		p.Discount = append(p.Discount, uint32(d))
	}
	return p
}

// RunOf are a settled spec's values that a replica of the model needs.
func RunOf(s spec.Spec, run slot.Root) Run {
	r := Run{
		ID: run, InitRoot: FixedRoot(s), Outer: s.OuterConfig(), Params: Reduction(s), Fragments: s.Partition(),
		MaxStaleness: s.MaxStaleness(),
	}
	if s.Byzantine() { // with trust crash none are taken, whatever a spec of old says
		r.AuditSamples = s.Samples()
	}
	return r
}

// FixedRoot is the root of the state that a run begins with; zero: the founder's choice.
func FixedRoot(s spec.Spec) (root slot.Root) {
	if hex, ok := strings.CutPrefix(s.Init, "root:"); ok {
		_ = root.UnmarshalText([]byte(hex)) // validated
	}
	return root
}
