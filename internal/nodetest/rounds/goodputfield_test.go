package rounds

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// field is a swarm whose peers come and go.
type field struct {
	s       *nodetest.Swarm
	sc      scenario
	rand    *rand.Rand
	seed    uint64
	records map[p2pdiloco.Root]slot.Record // certified, by hash
	tip     slot.Record                    // of most work
	lives   []*life
	due     []arrival
	out     *goodput
}

// arrival is a peer that will come.
type arrival struct {
	at   time.Time
	pace time.Duration
}

// life is one peer's time in the swarm.
type life struct {
	p           *nodetest.Peer
	trainer     *nodetest.Stub
	began, ends time.Time     // zero: it still lives
	before      time.Duration // in inner steps, before the measurement
	until       time.Time     // drawn
	leaves      bool          // or else it vanishes
	told        chan struct{} // closed to make it leave; nil once it was
}

// simulate runs a scenario in a mode.
func simulate(t *testing.T, sc scenario, spec p2pdiloco.Spec, seed uint64) (out goodput) {
	t.Helper()
	began := spent()
	out.mode, out.seed = spec.Mode, seed
	nodetest.RunOver(t, sim.NewMemory, sc.latency, spec, 0, func(s *nodetest.Swarm) {
		s.Net.Rate = sc.rate
		s.Net.Heavy = map[string]int{p2p.ProtocolExchange: sc.weight(), p2p.ProtocolState: sc.weight()}
		f := &field{
			s: s, sc: sc, rand: rand.New(rand.NewPCG(seed, 3)), seed: seed,
			records: make(map[p2pdiloco.Root]slot.Record),
			out:     &out,
		}
		f.run()
	})
	out.work = spent() - began
	return out
}

// spent is what this process has used of the processors, where that can be had: a clock that does
// not run while other programs do.
var spent = func() time.Duration { return time.Duration(time.Now().UnixNano()) }

func (f *field) run() {
	start := time.Now()
	for i := range f.sc.peers {
		f.arrive(f.sc.paces[i%len(f.sc.paces)])
	}
	f.s.Until(2*time.Hour, "past the first slot",
		func() bool { time.Sleep(time.Second); f.look(); return f.tip.Slot > 0 })
	time.Sleep(f.sc.warm)
	f.nextSlot()
	from, began := f.tip.Slot, time.Now()
	for _, l := range f.lives {
		f.stays(l)
		l.before = l.trainer.Busy()
	}
	for time.Since(began) < f.sc.lasts {
		f.pass()
	}
	f.nextSlot()
	f.count(from, began)
	f.out.virtual = time.Since(start)
	f.s.CloseAll()
}

// pass lets some time pass.
func (f *field) pass() {
	f.churn()
	time.Sleep(5 * time.Second)
	f.look()
}

// nextSlot lets time pass until a slot has closed. A measurement begins and ends so: the inner
// steps that the first record lists were done before, in part, as those were that the next one
// would have listed.
func (f *field) nextSlot() {
	f.look()
	for at, began := f.tip.Slot, time.Now(); f.tip.Slot == at && time.Since(began) < time.Hour; {
		f.pass()
	}
}

// arrive starts a peer with a trainer of a pace.
func (f *field) arrive(pace time.Duration) *life {
	p := f.s.Add()
	told := make(chan struct{})
	l := &life{
		p: p, trainer: nodetest.NewStub(pace, f.sc.elements, f.seed<<16+uint64(p.Host)), began: time.Now(),
		until: time.Now().Add(1 << 60), told: told,
	}
	p.Trainer, p.WAN, p.Forgetful = l.trainer, true, true
	p.TuneNetwork = func(c *p2p.Config) {
		c.Pulse, c.FindEvery, c.AdvertiseEvery, c.PeersFile = slow*c.Pulse, slow*c.FindEvery, 3*c.AdvertiseEvery, ""
	}
	p.Config = func(c *p2pdiloco.Config) {
		c.Preset, c.StateBytesPerSecond = p2pdiloco.PresetWAN, stateRate/int64(f.sc.weight())
	}
	p.Hooks = func(h *testhooks.Hooks) { h.Timing = slowWAN }
	p.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-told:
				stop()
			case <-running.Done():
			}
		}()
		if err := n.Run(running); err != nil && (ctx.Err() != nil || !errors.Is(err, context.Canceled)) {
			return err
		}
		return n.Leave(ctx)
	}
	f.lives = append(f.lives, l)
	f.s.Start(p)
	return l
}

// stays draws how long a peer stays.
func (f *field) stays(l *life) {
	l.until = time.Now().Add(f.exponential(f.sc.life))
	l.leaves = f.rand.IntN(2) == 0
}

// exponential draws a time of a mean; forever if that is 0.
func (f *field) exponential(mean time.Duration) time.Duration {
	if x := f.rand.ExpFloat64(); mean > 0 {
		return time.Duration(x * float64(mean))
	}
	return 1 << 60
}

// churn lets those go whose time has come, and others come in their place.
func (f *field) churn() {
	for _, l := range f.lives {
		switch {
		case !l.ends.IsZero():
		case l.told == nil:
			if len(l.p.Done) > 0 {
				f.gone(l)
			}
		case time.Now().After(l.until) && l.leaves:
			close(l.told)
			l.told = nil
			f.out.left++
		case time.Now().After(l.until):
			f.s.Isolate(l.p)
			f.gone(l)
			f.out.lost++
		case len(l.p.Done) > 0:
			f.s.T.Fatalf("host %d ended by itself: %v", l.p.Host, <-l.p.Done)
		}
	}
	for i := 0; i < len(f.due); i++ {
		if time.Now().After(f.due[i].at) {
			f.stays(f.arrive(f.due[i].pace))
			f.due = append(f.due[:i], f.due[i+1:]...)
			i--
		}
	}
}

// gone ends a peer for good.
func (f *field) gone(l *life) {
	f.takeIn(l.p)
	l.ends = time.Now()
	f.s.Stop(l.p)
	f.s.Net.Close(l.p.Host)
	f.due = append(f.due, arrival{time.Now().Add(f.exponential(f.sc.away)), l.trainer.Step})
}

// look takes in what the peers have agreed on.
func (f *field) look() {
	for _, l := range f.lives {
		if l.ends.IsZero() {
			f.takeIn(l.p)
		}
	}
}

// takeIn takes in a peer's chain, if it is the best.
func (f *field) takeIn(p *nodetest.Peer) {
	ledger := p.Ledger()
	if ledger == nil {
		return
	}
	tip := ledger.View().Tip
	if tip.Work < f.tip.Work || tip.Work == f.tip.Work && tip.Height <= f.tip.Height {
		return
	}
	f.tip = tip
	for h := tip.Height; h > 0; h-- {
		c, ok := ledger.Record(h)
		if !ok {
			return
		}
		hash := c.Record.Hash()
		if _, known := f.records[hash]; known {
			return
		}
		f.records[hash] = c.Record
	}
}

// count adds up what became of the peers' time since the measurement began, with the records after
// a slot.
func (f *field) count(after uint64, began time.Time) {
	for _, l := range f.lives {
		f.span(l, began)
	}
	spec := f.s.Spec.Settled()
	for r, ok := f.tip, true; ok && r.Slot > after; r, ok = f.records[r.Prev] {
		if r.Kind != slot.Step {
			continue
		}
		f.out.slots++
		for _, o := range r.Contributions {
			f.out.listed++
			d := time.Duration(o.Weight) * time.Millisecond / time.Duration(spec.Fragments)
			// where a slot has landed, its fragment's inner steps are lost
			d -= d * time.Duration(spec.Delay()) / time.Duration(spec.InnerSteps)
			f.out.useful += d
			f.out.discounted += d * time.Duration(spec.Discount[r.Slot-1-o.Base]) / 1000
		}
	}
}

// span adds a peer's time since the measurement began.
func (f *field) span(l *life, began time.Time) {
	ends := l.ends
	if ends.IsZero() {
		ends = time.Now()
	}
	first := l.trainer.Started()
	if first.IsZero() {
		first = ends
	}
	f.out.total += max(0, ends.Sub(later(l.began, began)))
	f.out.joining += max(0, first.Sub(later(l.began, began)))
	f.out.busy += l.trainer.Busy() - l.before
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
