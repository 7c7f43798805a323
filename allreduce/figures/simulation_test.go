package figures

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

const (
	simElements = 1536
	simFrame    = 256
)

// run is a simulated run: each peer descends a quadratic of its own, and an outer optimizer with
// momentum applies what the aggregator makes of it.
type run struct {
	rng      *rand.Rand
	params   allreduce.Params
	peers    []slot.PeerID
	centers  [][]float32 // where each peer's loss is least
	curve    []float32   // how far a round goes towards it, by coordinate
	noise    float64
	anchor   []float32
	velocity []float32
	before   []float32 // outcome
	attack   map[int]func(r *run, x []float32)
	voters   int    // the first so many have a vote; 0: all
	joins    uint64 // slot from which the others contribute
	from     uint64 // slot
	now      uint64 // slot
	trackers []*Tracker
	changes  [][]Change
}

func newRun(seed uint64, n int, p allreduce.Params, apart, noise float64) *run {
	r := &run{
		rng: rand.New(rand.NewPCG(seed, 7)), params: p, noise: noise, anchor: make([]float32, simElements),
		velocity: make([]float32, simElements), curve: make([]float32, simElements),
		before: make([]float32, simElements), attack: map[int]func(*run, []float32){},
	}
	common := r.normal(1)
	for j := range r.curve {
		r.curve[j] = float32(.02 + .3*r.rng.Float64())
	}
	for i := range n {
		peer := slot.PeerID(fmt.Sprintf("peer-%02d", i))
		r.peers = append(r.peers, peer)
		center, own := slices.Clone(common), r.normal(apart*(.5+r.rng.Float64()))
		for j := range center {
			center[j] += own[j]
		}
		r.centers = append(r.centers, center)
		r.trackers, r.changes = append(r.trackers, NewTracker(peer)), append(r.changes, nil)
	}
	return r
}

func (r *run) normal(size float64) []float32 {
	x := make([]float32, simElements)
	for j := range x {
		x[j] = float32(size * r.rng.NormFloat64())
	}
	return x
}

// contribution is peer i's pseudo-gradient.
func (r *run) contribution(i int, slotNumber uint64) []float32 {
	x := r.normal(r.noise)
	for j := range x {
		x[j] += r.curve[j] * (r.anchor[j] - r.centers[i][j])
	}
	if attack := r.attack[i]; attack != nil && slotNumber >= r.from {
		attack(r, x)
	}
	return x
}

// slower makes each round go less far, so that the run is far from its end when an attack begins.
func (r *run) slower(by float32) *run {
	for j := range r.curve {
		r.curve[j] /= by
	}
	r.noise /= float64(by)
	return r
}

// slot does one slot: each peer owns a segment, and every peer sums up what the owners publish.
func (r *run) slot(number uint64) {
	var offers []slot.Offer
	var all [][]float32
	c, err := codec.New(r.params.Codec)
	if err != nil {
		panic(err)
	}
	for i, peer := range r.peers[:r.contributors(number)] {
		offers = append(offers, slot.Offer{Peer: peer, Slot: number, Base: number - 1, Weight: 1 + uint64(i)})
		x := r.contribution(i, number)
		if err := c.Decode(x, c.Append(nil, x)); err != nil {
			panic(err)
		}
		all = append(all, x)
	}
	outcome := make([]float32, simElements)
	frames := plan.NewGrid(r.params, 0).Frames
	segments := make([]Segment, min(len(r.peers), frames))
	for f := range frames {
		s := &segments[f*len(segments)/frames]
		s.Owner, s.Offers = r.peers[f*len(segments)/frames], offers
		s.Rows = append(s.Rows, r.row(number, f, offers, all, outcome))
	}
	published := Sum(r.params, number, segments)
	shares := r.marks(all, len(segments))
	for k, c := range published {
		i := slices.Index(r.peers, c.Peer)
		published[k].Marked, published[k].Newcomer = shares[i] > .5, r.voters > 0 && i >= r.voters
	}
	for i, t := range r.trackers {
		r.changes[i] = append(r.changes[i], t.Begin(number, r.peers)...)
		r.changes[i] = append(r.changes[i], t.Add(number, published)...)
	}
	copy(r.before, outcome)
	for j, g := range outcome {
		r.velocity[j] = .9*r.velocity[j] + g
		r.anchor[j] -= .5 * (g + .9*r.velocity[j])
	}
}

// contributors is how many contribute to a slot.
func (r *run) contributors(number uint64) int {
	if r.voters > 0 && number < r.joins {
		return min(r.voters, len(r.peers))
	}
	return len(r.peers)
}

// judges are the places of those whose contributions say what owners mark.
func (r *run) judges() (all []int) {
	for i := range r.peers {
		if r.voters == 0 || i < r.voters {
			all = append(all, i)
		}
	}
	return all
}

// marks is of which share of the elements each contribution is marked, by so many owners.
func (r *run) marks(all [][]float32, owners int) []float64 {
	shares, frames := make([]float64, len(all)), (simElements+simFrame-1)/simFrame
	for o := range owners {
		begin, end := frames, 0
		for f := range frames {
			if f*owners/frames == o {
				begin, end = min(begin, f), f+1
			}
		}
		a, part := allreduce.NewAlike(len(all)), make([][]float32, len(all))
		for i, x := range all {
			part[i] = x[begin*simFrame : end*simFrame]
		}
		a.Add(part)
		marks := a.Against(r.judges())
		for i := range all {
			if marks.Has(i) {
				shares[i] += float64(end-begin) / float64(frames)
			}
		}
	}
	return shares
}

// row reduces a frame and measures it, the plain way.
func (r *run) row(number uint64, f int, offers []slot.Offer, all [][]float32, outcome []float32) slot.FigureRow {
	agg, err := plan.NewAggregation(r.params, number, 0, offers)
	if err != nil {
		panic(err)
	}
	begin, end := f*simFrame, min((f+1)*simFrame, simElements)
	var cols [][]float32
	var norms []float64
	for _, x := range all {
		cols, norms = append(cols, x[begin:end]), append(norms, kernel.NormSq(x[begin:end]))
	}
	out := outcome[begin:end]
	agg.Frame(out, cols, norms)
	counts, room := make([]uint32, len(cols)), make([]float32, len(cols))
	for j := range out {
		agg.CountTrimmed(counts, room, cols, j)
	}
	square, before := kernel.NormSq(out), r.before[begin:end]
	row := slot.FigureRow{Norm: allreduce.Rounded(square)}
	for i, c := range cols {
		row.Of = append(row.Of, slot.Figure{
			Norm: allreduce.Rounded(norms[i]), Along: allreduce.Along(kernel.Dot(c, out), square),
			Before:  allreduce.Along(kernel.Dot(c, before), kernel.NormSq(before)),
			Trimmed: uint16(int(counts[i]) * slot.FigureScale / len(out)),
		})
	}
	return row
}

func simParams(a allreduce.Aggregator, clip bool, name string) allreduce.Params {
	return allreduce.Params{
		Fragments: []uint64{simElements}, FrameElements: simFrame, Aggregator: a, TrimPermille: 200, Clip: clip,
		Discount: []uint32{1000}, Codec: name,
	}
}

// Honest peers never stand out, with whatever data each of them has, from the first slots until the
// model has come to rest, whatever the aggregator is.
func TestHonestPeersNeverStandOut(t *testing.T) {
	runs, slots := testlevel.Choose(4, 8, 480), uint64(100) // with each aggregator
	if testing.Short() {
		slots = 40
	}
	for _, a := range []struct {
		kind allreduce.Aggregator
		clip bool
		name string
	}{
		{allreduce.TrimmedMean, true, codec.F32},
		{allreduce.Mean, false, codec.F32},
		{allreduce.Median, true, codec.Int4},
		{allreduce.TrimmedMean, false, codec.Sign},
	} {
		for seed := range uint64(runs) {
			n := 2 + int(seed)%9
			apart, noise := []float64{0, .3, 1, 3}[seed%4], []float64{.01, .3, 2}[seed%3]
			r := newRun(seed, n, simParams(a.kind, a.clip, a.name), apart, noise)
			r.slower([]float32{1, 3, 20}[seed/4%3])
			r.voters, r.joins = []int{0, 3, 4, 5}[seed/9%4], []uint64{0, 10, 25, 60}[seed/7%4]
			r.play(slots)
			for i := range r.peers {
				for _, c := range r.changes[i] {
					if c.Begins && (c.Kind != OwnOpposite || r.contributors(c.Slot) >= leastPeers) {
						t.Errorf("%s clip=%v %s, %d peers, apart %v, noise %v: to %s %s %s", a.kind, a.clip, a.name,
							n, apart, noise, r.peers[i], c.Peer, c.Words)
					}
				}
			}
		}
	}
}

// attacks are what bad contributors send in the place of x, and what that is called.
var attacks = map[Kind][]func(r *run, x []float32){
	Opposite: {
		func(_ *run, x []float32) { times(x, -1) }, func(_ *run, x []float32) { times(x, -10) },
		func(_ *run, x []float32) { times(x, -.3) },
	},
	TooLarge: {
		func(_ *run, x []float32) { times(x, 1e6) },
		func(r *run, x []float32) { copy(x, r.normal(5)) },
	},
	OldNews: {func(r *run, x []float32) { copy(x, r.before) }},
}

func times(x []float32, by float32) {
	for j := range x {
		x[j] *= by
	}
}

// Bad contributors are named by each peer, and nobody else is, within 10 slots after they have
// begun. Three of eight that point the other way leave little that the others have in common with
// the outcome: owners mark them all the same, also where the three have no vote.
func TestBadContributorsAreNamed(t *testing.T) {
	check := func(kind Kind, way, voters int, noise float64, bad ...int) {
		for _, from := range []uint64{1, 15} {
			r := newRun(uint64(way), 8, usualParams(), .5, noise).slower(20)
			r.from, r.voters = from, voters
			for _, i := range bad {
				r.attack[i] = attacks[kind][way]
			}
			r.play(from + 9)
			name := fmt.Sprintf("%s %d by %v from %d, noise %v, %d voters", kind, way, bad, from, noise, voters)
			for i, tr := range r.trackers {
				checkNamed(t, name, r, i, kind, tr.Findings())
			}
		}
	}
	for kind, of := range attacks {
		for way := range of {
			check(kind, way, 0, .1, 2)
			check(kind, way, 0, .1, 2, 5)
		}
	}
	for _, voters := range []int{0, 5} {
		check(Opposite, 0, voters, .1, 5, 6, 7)
		check(Opposite, 0, voters, .2, 5, 6, 7)
	}
}

// play does so many slots more.
func (r *run) play(slots uint64) {
	for range slots {
		r.now++
		r.slot(r.now)
	}
}

func usualParams() allreduce.Params { return simParams(allreduce.TrimmedMean, true, codec.F32) }

// checkNamed compares what peer i finds with the attack.
func checkNamed(t *testing.T, name string, r *run, i int, kind Kind, found []Finding) {
	t.Helper()
	named := map[slot.PeerID]bool{}
	for _, f := range found {
		j := slices.Index(r.peers, f.Peer)
		if r.attack[j] == nil {
			t.Errorf("%s: to peer %d the honest %s %s", name, i, f.Peer, f.Words)
		}
		named[f.Peer] = named[f.Peer] || f.Kind == kind
	}
	for j := range r.attack {
		if !named[r.peers[j]] {
			newest, _, m, _ := r.trackers[i].Of(r.peers[j])
			t.Errorf("%s: to peer %d the bad %s does not stand out: %+v, %+v", name, i, r.peers[j], m, newest)
		}
	}
	_, bad := r.attack[i]
	alarm := slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == OwnOpposite })
	if alarm != (bad && kind == Opposite) {
		t.Errorf("%s: peer %d raises an alarm about itself: %v", name, i, alarm)
	}
}

// A finding begins once and ends once, after its peer has come to its senses.
func TestFindingsEnd(t *testing.T) {
	r := newRun(1, 8, usualParams(), .3, .1).slower(20)
	r.attack[3] = attacks[Opposite][0]
	r.play(12)
	delete(r.attack, 3)
	r.play(30)
	got := r.changes[0]
	if len(got) != 2 || !got[0].Begins || got[1].Begins || got[0].Peer != r.peers[3] || got[1].Kind != Opposite ||
		len(r.trackers[0].Findings()) != 0 {
		t.Errorf("changes %+v", got)
	}
}

// The figures are those of a naive computation where the aggregator is the mean.
func TestSumOfTheMean(t *testing.T) {
	r := newRun(5, 5, simParams(allreduce.Mean, false, codec.F32), .5, .3)
	r.play(1)
	newest, _, _, ok := r.trackers[0].Of(r.peers[2])
	if !ok {
		t.Fatal("nothing is known of a contributor")
	}
	r = newRun(5, 5, r.params, .5, .3)
	var all [][]float32
	for i := range r.peers {
		all = append(all, r.contribution(i, 1))
	}
	rest := make([]float32, simElements)
	for i, x := range all {
		for j := range x {
			if i != 2 {
				rest[j] += float32(1+i) * x[j] // of these weights
			}
		}
	}
	x := all[2]
	cosine := kernel.Dot(x, rest) / math.Sqrt(kernel.NormSq(x)*kernel.NormSq(rest))
	// the median over owners, each of whom has a part
	if math.Abs(newest.Cosine-cosine) > .1 || math.Abs(newest.Norm-math.Sqrt(kernel.NormSq(x))) > 1e-4*newest.Norm {
		t.Errorf("cosine %v, norm %v; want %v, %v", newest.Cosine, newest.Norm, cosine, math.Sqrt(kernel.NormSq(x)))
	}
}
