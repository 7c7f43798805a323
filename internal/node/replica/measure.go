package replica

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// SlotStats are the measures of one slot, as this peer sees them. They are for people: nothing is
// decided by them. Unknown values are nil.
type SlotStats struct {
	Slot         uint64
	Contributors int     // that the record lists
	Weight       uint64  // that all contributions count for: tokens or samples
	Staleness    float64 // mean over the contributions, in slots
	MaxStaleness uint64  // in slots

	// Norm is the Euclidean norm of the aggregated pseudo-gradient, OwnNorm that of this peer's
	// contribution, Cosine that of the angle between the two. Above measuredElements elements they
	// are estimates from so many of them. PairCosine is the mean cosine over all pairs of
	// contributions, on a few frames of the part that this peer reduced.
	Norm                        float64
	OwnNorm, Cosine, PairCosine *float64

	listed bool // the record lists this peer's contribution
}

// Stats are the measures of the newest slot that was applied since the replica was opened, and what
// was counted since then.
type Stats struct {
	Newest        SlotStats // zero if no slot was applied
	Applied       uint64    // slots
	Contributions uint64    // slots of them that list a contribution of this peer
}

// measuredElements bounds what the measures cost: some 3 ms a slot on one core.
const measuredElements = 1 << 20

// count takes in a slot that was applied.
func (r *Replica) count(s SlotStats) {
	all := r.Stats()
	all.Newest = s
	all.Applied++
	if s.listed {
		all.Contributions++
	}
	r.stats.Store(&all)
}

// fields are those of the event slot.stats.
func (s SlotStats) fields() map[string]any {
	fields := map[string]any{
		"slot": s.Slot, "contributors": s.Contributors, "weight": s.Weight, "staleness": s.Staleness,
		"max_staleness": s.MaxStaleness, "norm": s.Norm,
	}
	for name, v := range map[string]*float64{"own_norm": s.OwnNorm, "cosine": s.Cosine, "pair_cosine": s.PairCosine} {
		if v != nil {
			fields[name] = *v
		}
	}
	return fields
}

// statsOf takes from a record what it says by itself.
func statsOf(record slot.Record, weighing slot.Weighing) SlotStats {
	s := SlotStats{Slot: record.Slot, Contributors: len(record.Contributions)}
	total := 0.0
	for _, o := range record.Contributions {
		stale := record.Slot - 1 - o.Base // validated: base < slot
		s.MaxStaleness = max(s.MaxStaleness, stale)
		total += float64(stale)
	}
	for _, w := range weighing.Weights(record.Contributions) {
		s.Weight += w
	}
	if s.Contributors > 0 {
		s.Staleness = total / float64(s.Contributors)
	}
	return s
}

// measure adds to what a record says how long its aggregated pseudo-gradient is, how it lies to
// this peer's contribution, and how the contributions that were reduced here lie to each other. It
// only reads.
func (r *Replica) measure(record slot.Record, grad gradient) SlotStats {
	s := statsOf(record, r.cfg.Run.Params.Weighing(record.Usual))
	own, done := r.contributions.find(record.Contributions)
	defer done()
	s.listed = slices.ContainsFunc(record.Contributions, func(o slot.Offer) bool { return o.Peer == r.cfg.Self })
	s.PairCosine = figures.Finite(r.reductions.cosine(record.Slot))
	sums, err := sample(int(r.Fragment(record.Slot).Elements()), measuredElements,
		lendParts(r.contributions.codec, grad, own))
	if err != nil { // the contribution was encoded here, and nothing depends on the measures
		r.log.Warn("the own contribution was not measured", "slot", record.Slot, "err", err)
		return s
	}
	s.Norm = math.Sqrt(sums.aa)
	if own != nil {
		s.OwnNorm, s.Cosine = figures.Finite(math.Sqrt(sums.bb)), figures.Finite(sums.cosine())
	}
	return s
}

// lendParts lends parts of the aggregated pseudo-gradient and of a contribution to it, which is
// zero where there is none.
func lendParts(c codec.Codec, grad gradient, own *allreduce.Contribution) func(begin, end int) (a, b []float32,
	err error) {
	var all, part [sampleBlock]float32
	return func(begin, end int) (a, b []float32, err error) {
		a, b = all[:end-begin], part[:end-begin]
		grad.copyFrom(begin, a)
		if own != nil {
			err = c.Decode(b, own.Bytes()[c.EncodedSize(begin):c.EncodedSize(end)])
		}
		return a, b, err
	}
}

// products are the scalar products of two vectors with themselves and each other, in float64. They
// are for people: what peers agree on is in package kernel alone.
type products struct{ aa, ab, bb float64 }

// cosine is that of the angle between the two; NaN where one of them is zero.
func (s products) cosine() float64 {
	return max(-1, min(1, s.ab/math.Sqrt(s.aa)/math.Sqrt(s.bb)))
}

// sampleBlock is how many elements sample takes in one place.
const sampleBlock = 1 << 12

// sample measures at most so many elements, in blocks at equal distances, and scales the products
// to the whole vectors. get lends the elements [begin, end) of both, until it is called again.
func sample(elements, most int, get func(begin, end int) (a, b []float32, err error)) (s products, err error) {
	seen := 0
	stride := max(1, (elements+most-1)/max(1, most))
	for begin := stride / 2 * sampleBlock; begin < elements; begin += stride * sampleBlock {
		end := min(elements, begin+sampleBlock)
		a, b, err := get(begin, end)
		if err != nil {
			return products{}, err
		}
		s.aa, s.ab, s.bb = s.aa+kernel.NormSq(a), s.ab+kernel.Dot(a, b), s.bb+kernel.NormSq(b)
		seen += end - begin
	}
	if seen > 0 && seen < elements {
		k := float64(elements) / float64(seen)
		s.aa, s.ab, s.bb = k*s.aa, k*s.ab, k*s.bb
	}
	return s, nil
}
