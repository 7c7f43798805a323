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
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
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
	attack   map[int]func(r *run, x []float32)
	from     uint64 // slot
	now      uint64 // slot
	trackers []*Tracker
	changes  [][]Change
}

func newRun(seed uint64, n int, p allreduce.Params, apart, noise float64) *run {
	r := &run{
		rng: rand.New(rand.NewPCG(seed, 7)), params: p, noise: noise, anchor: make([]float32, simElements),
		velocity: make([]float32, simElements), curve: make([]float32, simElements),
		attack: map[int]func(*run, []float32){},
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
	for i, peer := range r.peers {
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
	for i, t := range r.trackers {
		r.changes[i] = append(r.changes[i], t.Begin(number, r.peers)...)
		r.changes[i] = append(r.changes[i], t.Add(number, published)...)
	}
	for j, g := range outcome {
		r.velocity[j] = .9*r.velocity[j] + g
		r.anchor[j] -= .5 * (g + .9*r.velocity[j])
	}
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
	square := kernel.NormSq(out)
	row := slot.FigureRow{Norm: allreduce.Rounded(square)}
	for i, c := range cols {
		row.Of = append(row.Of, slot.Figure{
			Norm: allreduce.Rounded(norms[i]), Along: allreduce.Along(kernel.Dot(c, out), square),
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

// Honest peers do not stand out, with whatever data each of them has, from the first slots until
// the model has come to rest, whatever the aggregator is. In few of the many runs of a night they
// do: where a mean without noise is about to come to rest.
func TestHonestPeersDoNotStandOut(t *testing.T) {
	runs, slots := testutil.Choose(4, 8, 480), uint64(100) // with each aggregator
	if testing.Short() {
		slots = 40
	}
	named, all := 0, 0
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
			r.play(slots)
			all++
			if said := r.said(n); said != "" {
				named++
				t.Logf("%s clip=%v %s, %d peers, apart %v, noise %v: %s", a.kind, a.clip, a.name, n, apart, noise, said)
			}
		}
	}
	if named > all/100 {
		t.Errorf("in %d of %d runs honest peers stand out", named, all)
	}
}

// said is the first finding of any peer; of fewer than four, alarms about oneself do not count.
func (r *run) said(n int) string {
	for i := range r.peers {
		for _, c := range r.changes[i] {
			if c.Begins && (c.Kind != OwnOpposite || n >= leastPeers) {
				return fmt.Sprintf("to %s %s %s", r.peers[i], c.Peer, c.Words)
			}
		}
	}
	return ""
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
}

func times(x []float32, by float32) {
	for j := range x {
		x[j] *= by
	}
}

// Bad contributors are named by each peer, and nobody else is, within 10 slots after they have
// begun.
func TestBadContributorsAreNamed(t *testing.T) {
	check := func(kind Kind, way int, noise float64, bad ...int) {
		for _, from := range []uint64{1, 15} {
			r := newRun(uint64(way), 8, usualParams(), .5, noise).slower(20)
			r.from = from
			for _, i := range bad {
				r.attack[i] = attacks[kind][way]
			}
			r.play(from + 9)
			name := fmt.Sprintf("%s %d by %v from %d, noise %v", kind, way, bad, from, noise)
			for i, tr := range r.trackers {
				checkNamed(t, name, r, i, kind, tr.found)
			}
		}
	}
	for kind, of := range attacks {
		for way := range of {
			check(kind, way, .1, 2)
			check(kind, way, .1, 2, 5)
		}
	}
	check(Opposite, 0, .1, 5, 6, 7)
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
			t.Errorf("%s: to peer %d the bad %s does not stand out: %+v", name, i, r.peers[j],
				*r.trackers[i].members[r.peers[j]])
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
		len(r.trackers[0].found) != 0 {
		t.Errorf("changes %+v", got)
	}
}

// The figures are those of a naive computation where the aggregator is the mean.
func TestSumOfTheMean(t *testing.T) {
	r := newRun(5, 5, simParams(allreduce.Mean, false, codec.F32), .5, .3)
	r.play(1)
	newest := r.trackers[0].Members()[r.peers[2]].Newest
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
