// Package rules says what a settled run spec means to the parts of a node: the reduction, the
// ledger, and the replica of the model.
package rules

import (
	"strings"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
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

// Ledger are a settled spec's values that the ledger needs.
func Ledger(s spec.Spec, run slot.Root) chain.Rules {
	ahead, partSteps := s.DataAssignment()
	return chain.Rules{
		Byzantine: s.Byzantine(), Founders: s.Founders, MaxWeightRatio: s.WeightRatio(),
		MaxElectors: int(s.MaxElectors), NewcomerShare: s.NewcomerShare, TermCap: s.TermCap,
		Ahead: ahead, PartSteps: partSteps, Run: run, InitRoot: initRoot(s), LastSlot: s.LastSlot(),
		StartPeers: int(s.StartPeers), MinPeers: int(s.MinPeers),
		MaxStaleness: s.MaxStaleness(), MaxWeight: s.MaxWeight, Fragments: s.FragmentElements(),
		Frame: s.Frame,
		Rings: Reduction(s).Rings(), Private: s.Access == spec.AccessPrivate,
		AuditSamples: s.Samples(), CheckProof: auditor.Checker{Params: Reduction(s)},
		Pace: chain.PaceRules{InnerSteps: s.InnerSteps, TrimPermille: s.TrimPermille},
	}
}

// Replica are a settled spec's values that a replica of the model needs.
func Replica(s spec.Spec, run slot.Root) replica.Run {
	r := replica.Run{
		ID: run, InitRoot: initRoot(s), Outer: s.OuterConfig(), Params: Reduction(s), Fragments: s.Partition(),
		MaxStaleness: s.MaxStaleness(),
	}
	if s.Byzantine() { // with trust crash none are taken, whatever a spec of old says
		r.AuditSamples = s.Samples()
	}
	return r
}

// initRoot is the root of the state that a run begins with; zero: the founder's choice.
func initRoot(s spec.Spec) (root slot.Root) {
	if hex, ok := strings.CutPrefix(s.Init, "root:"); ok {
		_ = root.UnmarshalText([]byte(hex)) // validated
	}
	return root
}
