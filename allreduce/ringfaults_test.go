package allreduce

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

// newMortalRing is a group of a ring whose peers can die.
func newMortalRing(t testing.TB, n int, seed uint64) *mortal {
	m := newMortal(t, n)
	for _, e := range m.engines {
		e.cfg.Logger = quietLogger
	}
	m.goRound(rand.New(rand.NewPCG(seed, 7)))
	return m
}

// roundFrames is how many frames pass at a peer of a ring if nobody dies.
func roundFrames(t *testing.T, n int) int {
	m := newMortalRing(t, n, 1)
	var passed atomic.Int32
	m.sinks[0].progress = func() { passed.Add(1) }
	m.startAll()
	m.wait()
	m.check()
	m.group.close()
	return int(passed.Load())
}

// Whoever dies, whenever: the ring closes, what was reduced stays, and the survivors end with the
// reference's bits for each range's contributors.
func TestRingDeath(t *testing.T) {
	const n = 5
	frames := roundFrames(t, n)
	if frames < 100 {
		t.Fatalf("%d frames pass at a peer: too few to die among", frames)
	}
	for victim := range n {
		for _, percent := range []int{0, 5, 30, 60, 90, 99} {
			t.Run(fmt.Sprintf("peer %d after %d percent", victim, percent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMortalRing(t, n, uint64(victim))
					m.dieAfter(victim, frames*percent/100)
					m.startAll()
					m.mourn(victim)
					m.bury(victim)
					m.wait()
					m.check()
					m.group.close()
				})
			})
		}
	}
}

// A death in the middle leaves what owners had finished: ranges with the dead one in them.
func TestRingKeepsWhatIsReduced(t *testing.T) {
	m := newMortalRing(t, 4, 2)
	m.dieAfter(1, roundFrames(t, 4)*6/10)
	m.startAll()
	m.mourn(1)
	m.bury(1)
	m.wait()
	m.check()
	with, without := 0, 0
	for _, s := range m.outcome() {
		if s.Contributors.Has(1) {
			with++
		} else {
			without++
		}
	}
	if with == 0 || without == 0 {
		t.Errorf("%d ranges with the dead peer, %d without", with, without)
	}
}

// Peers die one after the other or two at once, revisions reach the living in any order.
func TestRingRandomDeaths(t *testing.T) {
	for seed := range uint64(16) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			n := 3 + rng.IntN(6)
			m := newMortalRing(t, n, seed)
			order := rng.Perm(n)[:1+rng.IntN(n-1)]
			m.dieAfter(order[0], rng.IntN(40))
			m.startAll()
			m.mourn(order[0])
			for next := 0; next < len(order); {
				some := order[next:min(len(order), next+1+rng.IntN(2))]
				for _, v := range some {
					m.kill(v)
				}
				m.revise(some...)
				m.tell(rng)
				next += len(some)
			}
			m.wait()
			m.check()
			m.group.close()
		})
	}
}

// A peer that opens no stream, or answers none, is named by its neighbours, and by nobody else.
func TestRingMissingPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(4000, 100), 5, rand.New(rand.NewPCG(1, 2)),
			func(c *Config) { c.Stall = time.Second })
		g.plan.Ring = []uint16{0, 1, 2, 3, 4}
		delete(g.net.mu.engines, peerName(2))
		g.startAll(2)
		time.Sleep(10 * time.Second)
		onlyLost(t, "the peer before", g.sinks[1], peerName(2), Connection)
		onlyLost(t, "the next peer", g.sinks[3], peerName(2), Connection)
		for _, i := range []int{0, 4} {
			if l := g.sinks[i].lost(); len(l) > 0 {
				t.Errorf("peer %d, who has nothing to do with it, names %v", i, l)
			}
		}
		for _, r := range []*Reduction{g.running[1], g.running[2]} {
			<-r.Settled()
		}
		g.close()
	})
}

// What a peer had to say of another in one circle it says again in the next: the words about the
// first one are settled with it.
func TestRingNamesInEachCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(4000, 100), 6, rand.New(rand.NewPCG(1, 2)),
			func(c *Config) { c.Stall = time.Second })
		g.plan.Ring = []uint16{0, 1, 2, 3, 4, 5}
		delete(g.net.mu.engines, peerName(2))
		g.startAll(2)
		time.Sleep(10 * time.Second)
		g.revise(5)
		g.startAll(2, 5)
		time.Sleep(10 * time.Second)
		for _, i := range []int{1, 3} {
			if n := len(g.sinks[i].losses); n != 2 {
				t.Errorf("peer %d names its neighbour %d times in two circles", i, n)
			}
		}
		g.close()
	})
}

// A peer that stands still is named by the one before or the next, and by nobody else.
func TestRingStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const victim = 1
		g := newGroup(t, testParams(20_000, 100), 5, rand.New(rand.NewPCG(7, 7)),
			func(c *Config) { c.Stall = 10 * time.Second })
		g.plan.Ring = []uint16{3, 1, 4, 0, 2}
		var on atomic.Bool
		g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
			if local != peerName(victim) {
				return s
			}
			void, _ := wiretest.Pipe(1)
			return frozen{s, &on, void}
		}
		var frames atomic.Int32
		g.sinks[victim].progress = func() { on.Store(frames.Add(1) > 40) }
		g.startAll()
		time.Sleep(2 * time.Minute) // virtual: all limits have passed
		onlyLost(t, "the peer before", g.sinks[3], peerName(victim), Connection)
		onlyLost(t, "the next peer", g.sinks[4], peerName(victim), Connection)
		for _, i := range []int{0, 2} {
			if l := g.sinks[i].lost(); len(l) > 0 {
				t.Errorf("peer %d names %v", i, l)
			}
		}
		g.revise(victim)
		g.startAll(victim)
		g.wait()
		g.check()
		g.close()
	})
}

// slowLater is slow from the second write on.
type slowLater struct {
	slow
	opened atomic.Bool
}

func (s *slowLater) Write(b []byte) (int, error) {
	if s.opened.Swap(true) {
		return s.slow.Write(b)
	}
	return s.Stream.Write(b)
}

// A neighbour on a slow link holds all up and is not lost.
func TestRingSlowNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := 8 * time.Second
		g := newGroup(t, testParams(1200, 100), 4, rand.New(rand.NewPCG(8, 9)), func(c *Config) { c.Stall = stall })
		g.goRound(rand.New(rand.NewPCG(8, 9)))
		g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
			if local != peerName(2) {
				return s
			}
			return &slowLater{slow: slow{s, 30, stall / 2}}
		}
		g.startAll()
		time.Sleep(time.Hour) // virtual
		g.check()
		for i, s := range g.sinks {
			if l := s.lost(); len(l) != 0 {
				t.Errorf("peer %d lost %v", i, l)
			}
		}
		g.close()
	})
}

// roundGroup is a ring of three of which only peer 1 runs; peer 0, before it, is played by the
// test, and peer 2 takes what comes.
func roundGroup(t testing.TB) *group {
	g := newGroup(t, testParams(40, 4), 3, rand.New(rand.NewPCG(9, 9)),
		func(c *Config) { c.Stall, c.PendingWait = time.Hour, 10*time.Millisecond })
	g.plan.Ring = []uint16{0, 1, 2}
	g.net.silent = peerName(2)
	for _, e := range g.engines {
		e.hearsay, e.cfg.Logger = 0, quietLogger
	}
	return g
}

// opening0 is what peer 0 writes first.
func (g *group) opening0() []byte {
	h := hello{
		Run: testRun, Ref: g.plan.Ref, Revision: g.plan.Revision, Group: g.plan.Group(), Ring: true,
		Round: plan.KeyOf(g.plan),
	}
	return append(h.Append(nil), make([]byte, 4*len(g.plan.Pieces))...)
}

func partialOf(f int, values ...float32) []byte {
	b := kernel.Bytes(values)
	return append(header{kindPartial, uint32(f), uint32(len(b))}.Append(nil), b...)
}

// What no honest peer sends is put down to the peer before: wrong lengths, frames out of turn,
// values out of bounds.
func TestRingHostileNeighbour(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	g := roundGroup(t)
	// begins at peer 0: it is of the one before
	first, _ := g.engines[0].grids[0].FramesOf(g.plan.Pieces[2].Range)
	for name, c := range map[string]struct {
		bytes []byte
		want  Reason
	}{
		"nan":                    {partialOf(first, 1, nan, 2, 3), BadValue},
		"inf":                    {partialOf(first, 1, 2, inf, 3), BadValue},
		"too large":              {partialOf(first, 1, 2, 3, 2*kernel.Limit), BadValue},
		"short":                  {partialOf(first, 1, 2, 3), BadBytes},
		"long":                   {partialOf(first, 1, 2, 3, 4, 5), BadBytes},
		"beyond the end":         {partialOf(10, 1, 2, 3, 4), BadBytes},
		"of no piece":            {partialOf(math.MaxInt32, 1, 2, 3, 4), BadBytes},
		"piece that begins here": {partialOf(0, 1, 2, 3, 4), BadBytes},
		"twice":                  {append(partialOf(first, 1, 2, 3, 4), partialOf(first, 1, 2, 3, 4)...), BadBytes},
		"with a gap":             {append(partialOf(first, 1, 2, 3, 4), partialOf(first+2, 1, 2, 3, 4)...), BadBytes},
		"reduced too soon":       {header{kindPassed, 1, 16}.Append(nil), BadBytes},
		"reduced of own":         {header{kindPassed, 4, 16}.Append(nil), BadBytes},
		"norms":                  {header{kindNorms, 0, 80}.Append(nil), BadBytes},
		"raw":                    {header{kindRaw, 0, 16}.Append(nil), BadBytes},
		"huge":                   {header{kindPartial, uint32(first), math.MaxUint32}.Append(nil), BadBytes},
		"unknown kind":           {header{200, 0, 16}.Append(nil), BadBytes},
		"end of stream":          {nil, Connection},
	} {
		t.Run(name, func(t *testing.T) {
			g := roundGroup(t)
			g.start(1)
			_, s := g.dial(0, 1)
			if _, err := s.Write(append(g.opening0(), c.bytes...)); err != nil {
				t.Fatal(err)
			}
			_ = s.CloseWrite()
			g.named(1)
			onlyLost(t, "peer 1", g.sinks[1], peerName(0), c.want)
			_ = s.Reset()
			g.close()
		})
	}
}

// Tables that cannot be are refused as well.
func TestRingHostileTable(t *testing.T) {
	g := roundGroup(t)
	g.start(1)
	_, s := g.dial(0, 1)
	b := g.opening0()
	b[helloSize] = 1
	if _, err := s.Write(b); err != nil {
		t.Fatal(err)
	}
	g.named(1)
	onlyLost(t, "peer 1", g.sinks[1], peerName(0), BadBytes)
	_ = s.Reset()
	g.close()
}

// A stream of somebody else than the peer before, of another division, or a second one, is refused
// and hurts nobody.
func TestRingUnwantedStreams(t *testing.T) {
	g := roundGroup(t)
	g.start(1)
	other := g.opening0()
	other[helloSize-1]++
	for name, c := range map[string]struct {
		from  int
		bytes []byte
	}{
		"not the one before": {2, g.opening0()},
		"another division":   {0, other},
	} {
		_, s := g.dial(c.from, 1)
		_, _ = s.Write(c.bytes)
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s is served", name)
		}
	}
	_, s := g.dial(0, 1)
	_, _ = s.Write(g.opening0())
	if _, err := s.Read(make([]byte, 1)); err != nil {
		t.Errorf("the peer before is refused: %v", err)
	}
	_, again := g.dial(0, 1)
	_, _ = again.Write(g.opening0())
	if _, err := again.Read(make([]byte, 1)); err == nil {
		t.Error("a second stream is served")
	}
	if l := g.sinks[1].lost(); len(l) > 0 {
		t.Errorf("lost %v", l)
	}
	_ = s.Reset()
	g.close()
}

// FuzzRing gives a peer foreign bytes after a good opening: it names the peer before, whatever
// comes, and nobody else.
func FuzzRing(f *testing.F) {
	g := roundGroup(f)
	first, _ := g.engines[0].grids[0].FramesOf(g.plan.Pieces[2].Range)
	good := append(partialOf(first, 1, 2, 3, 4), partialOf(first+1, 5, 6, 7, 8)...)
	f.Add(0, good)
	f.Add(0, append(appendAlive(nil, 3), good...))
	f.Add(5, good[:40])
	f.Add(20, slices.Concat(good, good))
	f.Fuzz(func(t *testing.T, cut int, b []byte) {
		g := roundGroup(t)
		g.start(1)
		_, s := g.dial(0, 1)
		opening := g.opening0()
		_, _ = s.Write(append(opening[:len(opening)-min(max(cut, 0), len(opening))], b...))
		_ = s.CloseWrite()
		_, _ = s.Read(make([]byte, 1<<10))
		for s.Reset() == nil {
			break
		}
		g.close()
		for peer := range g.sinks[1].lost() {
			if peer != peerName(0) {
				t.Errorf("%s is named", peer)
			}
		}
	})
}
