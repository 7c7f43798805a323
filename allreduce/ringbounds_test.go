package allreduce

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// No peer begins more partial results than the window, whatever its neighbour would take; and the
// neighbour takes no more.
func TestRingWindowIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const frame = 100
		g := newGroup(t, testParams(90_000, frame), 3, rand.New(rand.NewPCG(9, 9)))
		g.plan.Ring = []uint16{0, 1, 2}
		g.net.size = 1 << 20 // a transport that would take more
		g.net.silent = peerName(2)
		g.start(0)
		g.start(1)
		_, before := g.dial(2, 0)
		_, _ = before.Write(g.opening0())
		synctest.Wait()
		table := 4 * len(g.plan.Pieces)
		window := g.running[1].schedule.(*rings).current.window
		_, received := g.running[1].Traffic()
		if most := helloSize + table + window*(4*frame+headerSize); int(received) != most {
			t.Errorf("%d bytes received, want a window: %d", received, most)
		}
		_ = before.Reset()
		g.close()
	})
	g := newGroup(t, testParams(4*900, 4), 3, rand.New(rand.NewPCG(9, 9)),
		func(c *Config) { c.Stall, c.PendingWait = time.Hour, 10*time.Millisecond })
	g.plan.Ring = []uint16{0, 1, 2}
	g.net.silent = peerName(2)
	g.engines[1].hearsay, g.engines[1].cfg.Logger = 0, quietLogger
	g.start(1)
	first, _ := g.engines[0].grids[0].FramesOf(g.plan.Pieces[2].Range) // begins at peer 0
	_, s := g.dial(0, 1)
	b := g.opening0()
	for f := range g.running[0].schedule.(*rings).current.window + 1 {
		b = append(b, partialOf(first+f, 1, 2, 3, 4)...)
	}
	if _, err := s.Write(b); err != nil {
		t.Fatal(err)
	}
	g.named(1)
	onlyLost(t, "peer 1", g.sinks[1], peerName(0), BadBytes)
	_ = s.Reset()
	g.close()
}

// A large contribution takes long to read: nobody waits for the stream of who takes its norms.
func TestRingOpensBeforeNormsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testParams(400, 100)
		p.Aggregator, p.Clip = TrimmedMean, true
		g := newGroup(t, p, 4, rand.New(rand.NewPCG(9, 9)), func(c *Config) { c.Stall = time.Second })
		g.plan.Ring = []uint16{0, 1, 2, 3}
		learn := make(chan struct{})
		g.engines[1].frames.New = func() any { <-learn; return new(frame) }
		g.startAll()
		time.Sleep(20 * time.Second)
		for i, s := range g.sinks {
			if l := s.lost(); len(l) > 0 {
				t.Errorf("peer %d lost %v", i, l)
			}
		}
		close(learn)
		g.wait()
		g.check()
		g.close()
	})
}

// Ranges are counted that owners close, not circles: however often the ring breaks before anything
// comes round.
func TestRingCountsRangesThatAreReduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(4000, 100), 6, rand.New(rand.NewPCG(3, 4)),
			func(c *Config) { c.Stall = time.Second })
		g.plan.Ring = []uint16{0, 1, 2, 3, 4, 5}
		var stopped []int
		g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
			if local == peerName(5) { // says hello, and no more
				return &slowLater{slow: slow{s, 1, time.Hour}}
			}
			return s
		}
		for _, gone := range []int{1, 3} {
			g.startAll(stopped...)
			time.Sleep(time.Second / 2)
			g.revise(gone)
			stopped = append(stopped, gone)
		}
		g.revise(5)
		g.startAll(append(stopped, 5)...)
		g.wait()
		g.check()
		for r, i := range g.started {
			closed := make(map[slot.Range]bool)
			for _, s := range g.sinks[i].mu.done {
				closed[s.Range] = true
			}
			if n := int(r.ranges.Load()); n != len(closed) {
				t.Errorf("peer %d counts %d ranges and closed %d", i, n, len(closed))
			}
		}
		g.close()
	})
}
