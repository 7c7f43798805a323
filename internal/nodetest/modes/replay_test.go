package modes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// equation is a run that is replayed.
type equation struct {
	mode, outer, codec string
	fragments, steps   uint64
	delay, alpha       string
	order              string
	loops              int // peers with a loop of their own
}

// What comes out is a plain sequential replay of the equations, bit for bit: all anchors, and all
// live parameters before and after each slot has landed. In the modes of whole vectors one peer
// misses a slot. With a lossy codec each peer owes what its bytes have lost, also where it misses a
// slot. Each fragment has an outer optimizer that knows nothing of the others'.
func TestModesAreTheirEquations(t *testing.T) {
	const strided, sequential = "strided", "sequential"
	equations := []equation{
		{mode: p2pdiloco.ModeSync},
		{mode: p2pdiloco.ModeDelayed, codec: codec.Int8},
		{mode: p2pdiloco.ModeEager, codec: codec.Int4},
		{mode: p2pdiloco.ModeSync, codec: codec.TopK},
		{p2pdiloco.ModeStreaming, outeropt.Nesterov, "", 2, 10, "5", "0", strided, 0},
		{p2pdiloco.ModeStreaming, outeropt.Adam, "", 3, 10, "0", "0.5", sequential, 0},
		{p2pdiloco.ModeStreaming, outeropt.SGD, "", 4, 11, "2", "0.5", strided, 0},
		{mode: p2pdiloco.ModeEager, outer: outeropt.DelayedNesterov},
		{mode: p2pdiloco.ModeDelayed, outer: mostly.Name},
		{p2pdiloco.ModeStreaming, outeropt.Nesterov, "", 3, 10, "2", "0.5", strided, 2},
		// from here at night
		{mode: p2pdiloco.ModeSync, outer: outeropt.DelayedNesterov},
		{mode: p2pdiloco.ModeSync, outer: outeropt.SGD, codec: codec.BF16},
		{mode: p2pdiloco.ModeDelayed, outer: outeropt.SGD},
		{mode: p2pdiloco.ModeDelayed, codec: codec.Sign},
		{mode: p2pdiloco.ModeEager, outer: outeropt.SGD},
		{p2pdiloco.ModeStreaming, outeropt.Nesterov, "", 1, 10, "4", "0.5", strided, 0},
		{p2pdiloco.ModeStreaming, outeropt.SGD, "", 4, 8, "1", "0", sequential, 0},
	}
	for i, c := range equations[:testutil.Choose(10, 10, len(equations))] {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			spec := nodetest.Spec(5, 3)
			spec.Mode, spec.Outer, spec.Codec = c.mode, cmp.Or(c.outer, outeropt.Nesterov), c.codec
			spec.Aggregator, spec.Clip = "mean", "off"
			if c.outer == outeropt.DelayedNesterov {
				spec.DNEvery = 5
			}
			if c.fragments > 0 {
				spec.Rounds, spec.MinPeers, spec.Fragments, spec.InnerSteps = 3, 3, c.fragments, c.steps
				spec.FragmentDelay, spec.FragmentAlpha, spec.FragmentOrder = c.delay, c.alpha, c.order
			}
			nodetest.Run(t, spec, 3, func(s *swarm) {
				trainers := record(s)
				for _, r := range trainers {
					if c.codec != "" { // no two elements alike
						r.Spoil = func(task p2pdiloco.Task, x []float32) {
							for j := range x {
								x[j] += float32((j*7919+int(task.Slot))%1000) / 500
							}
						}
					}
				}
				if i%2 == 0 {
					s.Peers[1].Trainer = graded{trainers[1]}
				}
				if c.fragments == 0 {
					trainers[2].late = 3
				}
				for k := range c.loops {
					trainers[k].loops(s.Peers[k])
				}
				answers := make(map[*recorder]func() map[uint64]string)
				s.Start(s.Peers...)
				for k := c.loops; k < len(s.Peers); k++ {
					answers[trainers[k]] = asks(s, s.Peers[k])
				}
				s.Finish(2*time.Minute, s.Peers...)
				r := newReplay(s, trainers)
				for _, p := range r.peers {
					if all, ok := answers[p.recorder]; ok {
						p.answers = all()
					}
				}
				r.run()
			})
		})
	}
}

// replay is a mode by hand: all peers one after the other, and no more than its equations.
type replay struct {
	*swarm
	spec   p2pdiloco.Spec
	theta  []float32
	outers []*outer // by fragment
	codec  codec.Codec
	peers  map[p2pdiloco.PeerID]*replayed
}

// replayed is a peer of it.
type replayed struct {
	*recorder
	host  int
	bowl  *nodetest.Bowl // its live parameters
	start []float32      // where the inner steps began; in mode streaming the anchor
	debt  []float32      // of what the codec loses
	own   *outer         // of mode eager: steps by its own part alone

	answers map[uint64]string // of its model by slot, nil: it was not asked
}

// outer is an outer optimizer of some elements.
type outer struct {
	*outeropt.Optimizer
	cfg      outeropt.Config
	elements []int
	at       outeropt.At // of the newest step
}

// newOuter makes the optimizer that steps the anchor, or, of a share of the contributors, what a
// peer steps ahead of it in mode eager.
func newOuter(s p2pdiloco.Spec, elements []int, share float32) *outer {
	cfg := s.OuterConfig()
	if share > 1 && cfg.Name == outeropt.DelayedNesterov {
		cfg.Name, cfg.Momentum, share = outeropt.SGD, 0, float32(cfg.Every)
	}
	cfg.LR /= share
	o, err := outeropt.New(cfg, uint64(len(elements)))
	if err != nil {
		panic(err)
	}
	return &outer{o, cfg, elements, outeropt.At{}}
}

// step steps x by g, the mean of so many contributions.
func (o *outer) step(x, g []float32, contributions int) {
	p, part := make([]float32, len(o.elements)), make([]float32, len(o.elements))
	for i, j := range o.elements {
		p[i], part[i] = x[j], g[j]
	}
	o.at = outeropt.At{
		Step: o.at.Step + 1, Contributions: uint64(contributions), Open: o.cfg.OpenAfter(o.at),
	}
	o.Step(p, part, o.at)
	for i, j := range o.elements {
		x[j] = p[i]
	}
}

func newReplay(s *swarm, trainers []*recorder) *replay {
	spec := s.Spec
	spec.Layout = trainers[0].Layout()
	r := &replay{swarm: s, spec: spec.Settled(), peers: make(map[p2pdiloco.PeerID]*replayed)}
	r.theta = make([]float32, spec.Layout.Elements())
	_ = trainers[0].Init(s.T.Context(), r.theta)
	r.codec, _ = codec.New(r.spec.Codec)
	for _, f := range r.spec.Partition() {
		var elements []int
		for _, part := range f.Ranges {
			for j := part.Begin; j < part.End; j++ {
				elements = append(elements, int(j))
			}
		}
		r.outers = append(r.outers, newOuter(r.spec, elements, 1))
	}
	for i, p := range s.Peers {
		b := &nodetest.Bowl{Target: trainers[i].Target, Spoil: trainers[i].Spoil, X: slices.Clone(r.theta)}
		r.peers[s.ID(p)] = &replayed{
			trainers[i], p.Host, b, nil, make([]float32, len(r.theta)),
			newOuter(r.spec, r.outers[0].elements, float32(len(s.Peers))), nil,
		}
	}
	return r
}

func (r *replay) run() {
	for slotNumber := uint64(1); slotNumber <= r.spec.LastSlot(); slotNumber++ {
		r.answered(slotNumber - 1)
		r.slot(slotNumber)
	}
	for p := range maps.Values(r.peers) {
		if p.answers != nil && uint64(len(p.answers)) < r.spec.LastSlot()-1 {
			r.T.Errorf("host %d was asked in %d of %d slots", p.host, len(p.answers), r.spec.LastSlot())
		}
	}
	r.measured(r.spec.Rounds)
	for p := range maps.Values(r.peers) {
		r.same(p, "what it is left with", p.X, r.theta)
	}
}

func (r *replay) same(p *replayed, what string, got, want []float32) {
	nodetest.SameVectors(r.T, fmt.Sprintf("host %d: %s", p.host, what), got, want)
}

// outerOf is the outer optimizer that a slot steps.
func (r *replay) outerOf(slotNumber uint64) *outer { return r.outers[r.spec.FragmentOf(slotNumber)] }

// slot is a slot's inner steps, in whose midst the one before lands in mode streaming, and its
// outer step.
func (r *replay) slot(slotNumber uint64) {
	fragments := uint64(len(r.outers))
	i, streams := (slotNumber-1)%fragments, r.spec.Mode == p2pdiloco.ModeStreaming
	if i == 0 {
		r.measured((slotNumber - 1) / fragments)
	}
	todo := int((i+1)*r.spec.InnerSteps/fragments) - int(i*r.spec.InnerSteps/fragments)
	before := slices.Clone(r.theta)
	for p := range maps.Values(r.peers) {
		lands := 0
		if streams || slotNumber == 1 {
			p.start = before
		}
		if streams && slotNumber > 1 {
			lands = r.lands(p, slotNumber, todo)
			r.train(p, place{slotNumber, 0}, lands)
			r.land(p, slotNumber-1)
		}
		r.train(p, place{slotNumber, uint64(lands)}, todo-lands)
	}
	r.outerOf(slotNumber).step(r.theta, r.mean(slotNumber), len(r.Contributors(slotNumber)))
	for p := range maps.Values(r.peers) {
		if !streams {
			r.next(p, slotNumber, before)
		}
	}
}

// train does inner steps of a peer.
func (r *replay) train(p *replayed, at place, steps int) {
	if steps > 0 {
		r.same(p, fmt.Sprintf("live parameters at %+v", at), p.lives[at], p.bowl.X)
	}
	for range steps {
		p.bowl.Step()
	}
	if p.bowl.Spoil != nil {
		p.bowl.Spoil(p2pdiloco.Task{Slot: at.slot}, p.bowl.X)
	}
}

// next is where a peer's next inner steps start where a slot is a whole vector: from the new anchor
// in mode sync, and where it missed the slot; or else from the one before, with its own part in it.
func (r *replay) next(p *replayed, slotNumber uint64, before []float32) {
	start := slices.Clone(r.theta)
	if p.late != slotNumber && r.spec.Mode != p2pdiloco.ModeSync {
		d := minus(p.start, p.bowl.X)
		if r.spec.Mode == p2pdiloco.ModeDelayed {
			start = minus(before, d)
		} else {
			start = slices.Clone(before)
			p.own.step(start, d, 1)
		}
	}
	p.start, p.bowl.X = start, slices.Clone(start)
}

func minus(a, b []float32) []float32 {
	d := make([]float32, len(a))
	for j := range d {
		d[j] = a[j] - b[j]
	}
	return d
}

// lands is after how many inner steps of a slot the one before has landed on a peer: tau, or as
// many more as it trained meanwhile.
func (r *replay) lands(p *replayed, slotNumber uint64, todo int) int {
	delay, _ := strconv.Atoi(r.spec.FragmentDelay)
	landed, ok := p.landed[slotNumber]
	if !ok || delay == 0 { // a loop of its own, which waits; or everybody does
		return delay
	}
	if int(landed) < delay || int(landed) > todo {
		r.T.Fatalf("host %d: slot %d landed %d inner steps after its border, of %d, tau being %d", p.host,
			slotNumber-1, landed, todo, delay)
	}
	return int(landed)
}

// land mixes a slot's fragment of the anchor into a peer's live parameters.
func (r *replay) land(p *replayed, slotNumber uint64) {
	alpha := r.spec.Alpha()
	for _, j := range r.outerOf(slotNumber).elements {
		p.bowl.X[j] = float32(alpha*p.bowl.X[j]) + float32((1-alpha)*r.theta[j])
	}
}

// mean is what the contributors to a slot have moved its fragment by, weighted by the tokens behind
// it.
func (r *replay) mean(slotNumber uint64) []float32 {
	contributors, total, want := r.Contributors(slotNumber), 0.0, len(r.peers)
	for p := range maps.Values(r.peers) {
		if p.late == slotNumber {
			want--
		}
	}
	if len(contributors) != want {
		r.T.Fatalf("slot %d has %d contributors", slotNumber, len(contributors))
	}
	for _, id := range contributors {
		total += float64(r.peers[id].tokens)
	}
	g := make([]float32, len(r.theta))
	for _, id := range contributors {
		p := r.peers[id]
		scale, sent := float32(float64(p.tokens)/total), r.sent(p)
		for _, j := range r.outerOf(slotNumber).elements {
			g[j] += float32(scale * sent[j])
		}
	}
	out, err := codec.NewOutcome(r.spec.Codec, r.spec.OutcomeCodec)
	if err != nil {
		r.T.Fatal(err)
	}
	return through(out, g)
}

// sent is what others decode of a peer's pseudo-gradient.
func (r *replay) sent(p *replayed) []float32 {
	d := minus(p.start, p.bowl.X)
	x := make([]float32, len(d))
	b := r.codec.Feedback
	for j, owed := range p.debt {
		x[j] = float32(b*owed) + d[j]
	}
	x = through(r.codec, x)
	for j := range x {
		p.debt[j] = float32(b*p.debt[j]) + (d[j] - x[j])
	}
	return x
}

func through(c codec.Codec, x []float32) []float32 {
	out := make([]float32, len(x))
	if err := c.Decode(out, c.Append(nil, x)); err != nil {
		panic(err)
	}
	return out
}

// measured checks the anchors that peers have measured after a round. In the overlapped modes who
// waited for a slot in vain went on from there, and did not.
func (r *replay) measured(round uint64) {
	for p := range maps.Values(r.peers) {
		if len(p.recorder.measured) > 0 && (p.late != round+1 || !r.spec.Overlaps()) {
			r.same(p, fmt.Sprintf("anchor %d", round), p.recorder.measured[round], r.theta)
		}
	}
}

// answered checks what models have said that were to be the anchor of a slot.
func (r *replay) answered(slotNumber uint64) {
	for p := range maps.Values(r.peers) {
		if text, ok := p.answers[slotNumber]; ok && text != digest(r.theta) {
			r.T.Errorf("host %d: the answer of slot %d is not of its anchor", p.host, slotNumber)
		}
	}
}
