package spec

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Spec is the run spec: what all peers of a run must agree on. It is immutable, and its hash is the
// run ID.
//
// A zero field is one that was not given: the peer that founds the run fills it with its default, a
// peer that joins adopts the run's value, and a field that was given and differs from the run's is
// refused by name. Numbers are integers (per mille where a fraction is meant) or decimal strings
// that are parsed once to float32, so that no peer rounds them differently.
type Spec struct {
	Name       string // of the run; peers that give the same name find each other
	Nonce      uint64 // tells runs of one name and equal settings apart
	Protocol   string // version of the wire and ledger rules
	Kernel     string // version of the arithmetic whose bits must agree
	Mode       string // sync | delayed | eager | streaming | async
	Rounds     uint64 // after which the run ends; default 100
	InnerSteps uint64 // H, inner steps a round

	Outer    string // outer optimizer: nesterov | sgd | delayed_nesterov | adam
	OuterLR  string // decimal: outer learning rate
	Momentum string // decimal; of adam beta1
	DNEvery  uint64 // delayed_nesterov: contributions from one use of the momentum to the next
	Beta2    string // decimal; of adam

	Fragments     uint64 // P: parts of the vector, of which a slot updates one
	FragmentOrder string // strided | sequential: how tensors are put into fragments
	FragmentDelay string // tau, an integer: inner steps after which a slot lands (mode streaming)
	FragmentAlpha string // decimal: how much of the live parameters stays there (mode streaming)

	Pace string // steps | dylu: how many inner steps a peer does

	Aggregator   string // mean | trimmed_mean | median
	TrimPermille uint64 // of the contributors, cut from each end by trimmed_mean
	Clip         string // on | off: scale each contribution to at most the median norm
	Codec        string // f32 | bf16 | int8 | int4 | sign | topk[:K:BITS]: how contributions travel
	Schedule     string // rotation | ring | auto: how contributions meet
	Frame        uint64 // elements of a frame of the reduction, a power of two
	Init         string // founder | root:HASH of the initial state
	Seed         uint64 // of the data's order, and of a new model
	StartPeers   uint64 // members that the first slot waits for
	MinPeers     uint64 // contributors with which a slot may close
	MaxWeight    uint64 // cap of one contribution's weight, in tokens
	// an integer: of the weight that it claims, a contribution counts at most so many times the
	// median of the last 16 slots; 0: all of it
	MaxWeightRatio string
	Discount       []uint64 // per mille, by staleness in slots: from 0 to the greatest one
	Access         string   // open | private: which peers may take part
	Trust          string   // crash | byzantine: what of its members the run withstands
	// of which more than half must sign the first record; empty: any peer may found the run
	Founders []trainer.PeerID
	// where votes are earned: how many members have one at most, and how many newcomers, per mille
	// of the other contributors, may contribute to one slot
	MaxElectors   uint64
	NewcomerShare uint64
	// an integer, or all: samples of each segment of an outcome that electors check before they
	// give HAVE, those of a quorum together; 0: none
	AuditSamples string
	// the longest that one leader has for a record; longer than the slowest reduction
	TermCap      time.Duration
	OutcomeCodec string // how the outcome travels; empty: as Codec, or int4 where that is sign

	Layout trainer.Layout // the model's tensors; comes from the trainer
}
