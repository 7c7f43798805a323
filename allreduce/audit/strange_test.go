package audit

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/internal/vary"
)

// strangeWorlds are honest segments of few contributors, with what a run has by default: empty
// contributions weigh nothing, and claims are capped.
func strangeWorlds(t *testing.T) (all []*world) {
	for n, aggregator := range []allreduce.Aggregator{
		allreduce.Mean, allreduce.TrimmedMean, allreduce.Median, allreduce.TrimmedMean,
	} {
		for _, name := range []string{codec.F32, codec.Int8, codec.Sign} {
			p := testParams(3000, 1024)
			p.Aggregator, p.Codec, p.Empties, p.WeightRatio = aggregator, name, true, 8
			all = append(all, newWorld(t, p, noise(rand.New(rand.NewPCG(1, uint64(n))), 3000, 1+n%3), 0, 2))
		}
	}
	return all
}

// honestProofs are proofs of each kind that would convict an honest peer if it had lied.
func (w *world) honestProofs(t *testing.T) []Proof {
	r := slot.Range{Begin: 1024, End: 1024 + uint64(w.unit())}
	rows := w.rows(t)
	frame := w.in.Elements(1, 2)
	return []Proof{
		{Kind: FalseOutcome, Statement: w.Statement, Outcome: w.opened(t, r), Openings: w.openings(t, r)},
		{Kind: FalseContribution, Offer: w.Offers[0], Openings: w.openings(t, r)[:1]},
		{Kind: FalseTotal, Offer: w.Offers[0], Leaves: w.own[0].Leaves()},
		{
			Kind: FalseFigures, Statement: w.Statement, Figures: slot.FiguresRoot(rows),
			Published: w.published(rows, 1), Outcome: w.opened(t, frame), Openings: w.openings(t, frame)[:1],
		},
	}
}

// TestNoVariedProofEndsAPeer: anybody may send a proof, and whoever gets it verifies it, so no
// proof may panic. Proofs of each kind are changed in one to three places, at any depth. What is
// signed may be changed, too: a liar signs what it likes.
func TestNoVariedProofEndsAPeer(t *testing.T) {
	r := testlevel.Random(t)
	worlds := strangeWorlds(t)
	var proofs [][]Proof
	for _, w := range worlds {
		proofs = append(proofs, w.honestProofs(t))
	}
	for range testlevel.Choose(10_000, 15_000, 2_000_000) {
		at := r.IntN(len(worlds))
		w, p := worlds[at], proofs[at][r.IntN(len(proofs[at]))]
		p.Statement.Offers = slices.Clone(p.Statement.Offers)
		for range 1 + r.IntN(3) {
			parts := []any{&p, &p.Statement, &p.Outcome, &p.Offer}
			for i := range p.Statement.Offers {
				parts = append(parts, &p.Statement.Offers[i])
			}
			vary.Value(parts[r.IntN(len(parts))], r.IntN)
		}
		if len(p.Openings) == 0 {
			continue // there is no such proof on the wire
		}
		read, err := ReadProof(p.Append(nil))
		if err != nil {
			continue
		}
		if _, err := read.Verify(w.Params); err != nil && !errors.Is(err, ErrProvesNothing) {
			t.Fatal(err)
		}
	}
}

// TestASegmentOfOffersThatWeighNothing: the owner alone makes all of it, and an aggregation of no
// values would panic in whoever verifies the proof.
func TestASegmentOfOffersThatWeighNothing(t *testing.T) {
	for _, w := range strangeWorlds(t) {
		p := w.honestProofs(t)[0]
		p.Statement.Offers = append([]slot.Offer(nil), p.Statement.Offers...)
		for i := range p.Statement.Offers {
			p.Statement.Offers[i].Weight = 0
		}
		if guilty, err := p.Verify(w.Params); !errors.Is(err, ErrProvesNothing) {
			t.Errorf("it convicts %v, %v", guilty, err)
		}
	}
}
