package allreduce

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// deathParams give frames that are large beside a hash, and several in each piece.
func deathParams(n int) Params {
	p := testParams(n*16*512+77, 512)
	p.Aggregator, p.Clip = TrimmedMean, true
	return p
}

// mortal runs f with a group whose peers can die.
func mortal(t *testing.T, n int, f func(g *group)) {
	t.Helper()
	bubble(t, deathParams(n), n, time.Minute, func(g *group) {
		g.apart() // a frame that has passed has gone out
		f(g)
	})
}

// dieAfter kills a peer once so many of its frames have passed.
func (g *group) dieAfter(victim, frames int) {
	g.after(victim, frames, func() {
		g.wg.Go(func() { g.kill(victim) })
		<-g.engines[victim].ctx.Done() // hardly any other passes until it is dead
	})
}

func (g *group) kill(victim int) {
	g.dead[victim].Store(true)
	_ = g.engines[victim].Close()
}

// mourn waits until somebody has named a victim; nobody does where all have all they need.
func (g *group) mourn(victim int) {
	for after := time.After(10 * time.Second); ; {
		select {
		case peer := <-g.losses:
			if peer == peerName(victim) {
				return
			}
		case <-after:
			return
		}
	}
}

// sent is what the living have sent.
func (g *group) sent() (bytes uint64) {
	for _, r := range g.running {
		if r != nil {
			s, _ := r.Traffic()
			bytes += s
		}
	}
	return bytes
}

// undisturbed is what a peer sends if nobody dies, and how many frames pass at it.
func undisturbed(t *testing.T, n int, ring bool) (bytes uint64, frames int) {
	mortal(t, n, func(g *group) {
		if ring {
			g.goRound()
		}
		var passed atomic.Int32
		g.sinks[0].progress = func() { passed.Add(1) }
		g.start(g.rest()...)
		g.check()
		bytes, frames = g.sent()/uint64(n), int(passed.Load())
	})
	return bytes, frames
}

// Whenever a peer dies, the survivors end with the same outcome, and in a rotation it costs them no
// more than 2/N of what they send anyway: what they have done stays done. Another death in the
// middle of what the first one made necessary costs as much again.
func TestDeathCostsItsShare(t *testing.T) {
	for _, c := range []struct {
		n       int
		ring    bool
		victims []int
	}{
		{4, false, []int{1}},
		{8, false, []int{1, 6}},
		{5, true, []int{0}},
		{5, true, []int{4, 2}},
	} {
		bytes, frames := undisturbed(t, c.n, c.ring)
		with, without := 0, 0 // ranges with and without the first to die
		for _, percent := range []int{0, 10, 50, 90} {
			t.Run(fmt.Sprintf("%+v after %d percent", c, percent), func(t *testing.T) {
				mortal(t, c.n, func(g *group) {
					if c.ring {
						g.goRound()
					}
					g.dieAfter(c.victims[0], frames*percent/100)
					g.start(g.rest()...)
					for i, victim := range c.victims {
						if i > 0 {
							g.kill(victim)
						}
						g.mourn(victim)
						g.revise(victim)
						g.start(g.rest()...)
					}
					g.check()
					runs, dead := g.rest(), len(c.victims)
					g.close() // all that was on its way is counted
					most := uint64(len(runs)) * bytes * uint64(c.n+2*dead) / uint64(c.n)
					if got := g.sent(); !c.ring && got > most {
						t.Errorf("the survivors sent %d bytes: at most %d are due", got, most)
					}
					for _, i := range runs {
						for peer := range g.sinks[i].lost() {
							if !slices.Contains(g.gone, g.plan.Place(peer)) {
								t.Errorf("peer %d names %s", i, peer)
							}
						}
					}
					for _, s := range g.outcome() {
						if s.Contributors.Has(c.victims[0]) {
							with++
						} else {
							without++
						}
					}
				})
			})
		}
		if with == 0 || without == 0 {
			t.Errorf("%+v: %d ranges are with the dead peer, %d without", c, with, without)
		}
	}
}

// A dead contributor that owns nothing needs no revision: the owners go on without it by
// themselves.
func TestDeathOfAContributor(t *testing.T) {
	for _, frames := range []int{1, 20, 60} {
		bubble(t, deathParams(4), 4, time.Second, func(g *group) {
			g.apart()
			const victim = 3
			g.plan.Pieces = plan.Pieces(g.params, 0, g.plan.Offers[:victim])
			g.dieAfter(victim, frames)
			g.start(0, 1, 2, victim)
			g.running[victim] = nil
			g.check()
			for _, s := range g.outcome() {
				if c := s.Contributors.Count(); c < 3 || c == 3 && s.Contributors.Has(victim) {
					t.Errorf("range %v has contributors %v", s.Range, s.Contributors)
				}
			}
		})
	}
}

// Peers die one after the other, at random frames, one or two at a time; revisions reach the living
// in any order, so that some send to heirs that do not know of it yet. Whatever the order, the
// schedule and the codec, and however frames travel, the survivors end with one outcome, and it is
// the reference's.
func TestRandomDeaths(t *testing.T) {
	for seed := range uint64(30) {
		rng, names := rand.New(rand.NewPCG(seed, 9)), codec.Names()
		n := 3 + rng.IntN(6)
		c, _ := codec.New(names[seed%uint64(len(names))])
		frame := max(256, c.Block)
		p := testParams(n*max(2, 2048/frame)*frame+77, frame)
		p.Aggregator, p.Clip, p.Codec = plan.Aggregators()[seed/2%3], seed%4 > 0, c.Name
		if p.Codec == codec.TopK {
			p.Aggregator = Mean
		}
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, p, n, time.Minute, rng)
			g.apart()
			for _, e := range g.engines {
				e.raw.always, e.reduced.always = packMethod(seed/10), packMethod(seed/10)
			}
			if seed%2 > 0 {
				g.goRound()
			}
			victims := rng.Perm(n)[:1+rng.IntN(n-1)]
			g.dieAfter(victims[0], rng.IntN(60))
			g.start(g.rest()...)
			g.mourn(victims[0])
			for len(victims) > 0 {
				some := victims[:min(len(victims), 1+rng.IntN(2))]
				for _, v := range some {
					g.kill(v)
				}
				g.revise(some...)
				g.tell()
				victims = victims[len(some):]
			}
			g.check()
		})
	}
}

// tell starts the newest plan on all the living at once, in any order.
func (g *group) tell() {
	var all sync.WaitGroup
	for _, i := range g.rng.Perm(len(g.engines)) {
		if !slices.Contains(g.gone, i) {
			all.Go(func() { g.start(i) })
		}
	}
	all.Wait()
}

// Two peers that cannot connect cost each other a contribution to their own pieces, and nobody else
// anything.
func TestABrokenPairCostsItself(t *testing.T) {
	bubble(t, deathParams(4), 4, time.Second, func(g *group) {
		apart := func(x, y int) bool { return x != y && x%3 == 0 && y%3 == 0 } // 0 and 3
		g.wrap = func(local, remote int, s wire.Stream) wire.Stream {
			if apart(local, remote) {
				_ = s.Reset()
			}
			return s
		}
		g.start(g.rest()...)
		for i, r := range g.running {
			<-r.Settled()
			for owner, p := range g.plan.Pieces {
				if ok := r.frames(p.Range).Bytes != nil; ok == apart(i, owner) {
					t.Errorf("peer %d has the piece of %d: %v", i, owner, ok)
				}
			}
		}
		g.running[0], g.running[3] = nil, nil
		g.check()
		for _, s := range g.outcome() {
			for i := range g.engines {
				if s.Contributors.Has(i) == apart(g.owner(s.Range.Begin), i) {
					t.Errorf("%v is reduced with %v", s.Range, s.Contributors)
				}
			}
		}
	})
}

// An owner that has lost most of the group waits for word of who is gone: it may be the one that is
// cut off.
func TestAnOwnerAloneWaits(t *testing.T) {
	mortal(t, 4, func(g *group) {
		g.size = 1 << 20
		for i := 1; i < 4; i++ {
			g.dead[i].Store(true)
		}
		g.start(0)
		for _, gone := range [][]int{{1, 2}, {3}} {
			time.Sleep(2 * time.Minute)
			if done := g.sinks[0].mu.done; len(done) > 0 {
				t.Errorf("alone of %d it states %v", len(g.rest()), done)
			}
			g.revise(gone...)
			g.start(0)
		}
		g.check()
	})
}

// A new leader may not know of the newest revision: its plan gives a piece back to its first owner,
// and a later one moves it anew.
func TestAnOlderDivisionComesBack(t *testing.T) {
	mortal(t, 4, func(g *group) {
		g.dieAfter(1, 30)
		first := g.plan
		g.start(g.rest()...)
		g.mourn(1)
		g.revise(1)
		g.start(g.rest()...)
		moved := g.plan
		first.Ballot, moved.Ballot = 1, 1
		moved.Revision++
		g.plan = first
		g.start(g.rest()...)
		for _, s := range g.sinks {
			s.mu.Lock()
			s.mu.done = nil // of the piece's first life; what stands is said again
			s.mu.Unlock()
		}
		g.plan = moved
		g.start(g.rest()...)
		g.check()
	})
}

// The sink hears again of what is closed when a plan is revised: whoever leads may be another. A
// peer that is told that it is gone ends its part.
func TestStatementsAreRepeated(t *testing.T) {
	mortal(t, 3, func(g *group) {
		g.start(g.rest()...)
		g.check()
		g.plan.Ballot++
		g.start(g.rest()...)
		for i, s := range g.sinks {
			if len(s.mu.done) != 2 || s.mu.done[0].Root != s.mu.done[1].Root {
				t.Errorf("peer %d states %v", i, s.mu.done)
			}
		}
		first := g.running[0]
		g.revise(0)
		if _, err := g.engines[0].Start(g.t.Context(), g.plan, g.own[0], g.sinks[0]); err != ErrNotInGroup {
			t.Errorf("got %v", err)
		}
		if first.ctx.Err() == nil {
			t.Error("it goes on")
		}
		g.start(1, 2)
		g.check()
	})
}

// What is held stays as it is while owners change, and what is had afterwards is of the new one.
func TestHoldDuringRevisions(t *testing.T) {
	mortal(t, 4, func(g *group) {
		g.start(g.rest()...)
		g.check()
		r, rng := g.running[0], g.plan.Pieces[1].Range
		held := func() (root slot.Root, ok bool) {
			b, done := r.Hold([]slot.Range{rng})
			defer done()
			root = slot.Hash(b[0].Bytes)
			runtime.Gosched()
			if slot.Hash(b[0].Bytes) != root {
				t.Error("bytes that are held changed")
			}
			return root, b[0].Bytes != nil
		}
		root, _ := held()
		var stop atomic.Bool
		var reader sync.WaitGroup
		reader.Go(func() {
			for !stop.Load() {
				held()
			}
		})
		g.kill(1)
		g.revise(1)
		g.start(g.rest()...)
		for _, i := range g.rest() {
			<-g.running[i].Complete()
		}
		stop.Store(true)
		reader.Wait()
		g.check()
		if got, ok := held(); !ok || got == root {
			t.Error("the moved piece has the old bytes, though a contributor went")
		}
	})
}

// Where a contributor dies, another one may be too many beside those that are left. Owners go on
// without both. They blame the first alone, and the second blames none of them: it is told.
func TestADeathTakesAnotherOneAlong(t *testing.T) {
	const n, dies, other = 6, 5, 4
	for _, frames := range []int{1, 40, 80} {
		mortal(t, n, func(g *group) {
			for _, s := range g.sinks {
				s.within = func(set slot.Bitmap) slot.Bitmap {
					if set = slices.Clone(set); !set.Has(dies) {
						set[other/8] &^= 1 << (other % 8)
					}
					return set
				}
			}
			g.dieAfter(dies, frames)
			g.start(g.rest()...)
			g.mourn(dies)
			g.revise(dies)
			g.start(g.rest()...)
			for _, i := range g.rest(other) { // owners leave the other one out by themselves
				<-g.running[i].Complete()
			}
			time.Sleep(2 * g.engines[0].hearsay) // by then they would have named it
			g.finish(other)
			without := 0
			for _, s := range g.outcome() {
				if !s.Contributors.Has(dies) {
					without++
					if s.Contributors.Has(other) {
						t.Errorf("range %v is without the dead one, and with the other", s.Range)
					}
				}
			}
			if without == 0 {
				t.Error("all ranges are with the dead one")
			}
			for i, s := range g.sinks {
				for peer, reason := range s.lost() {
					if i != dies && peer != peerName(dies) && (i != other || reason != Refused) {
						t.Errorf("peer %d names %s for %s", i, peer, reason)
					}
				}
			}
		})
	}
}
