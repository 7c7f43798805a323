package allreduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Contributors that own nothing, send what they should and hardly read what comes back hold up
// nobody, however many there are. A frame to each of four kept all lanes of an owner, and every
// other frame waited an eighth of a stall.
func TestSlowReadersKeepNobodyWaiting(t *testing.T) {
	const n, stall = 12, 6 * time.Second
	for _, lazy := range []int{3, 4, 5} {
		bubble(t, testParams(24_000, 100), n, stall, func(g *group) {
			g.size = 2048
			g.apart()
			g.wrap = func(local, _ int, s wire.Stream) wire.Stream {
				if local < n-lazy {
					return s
				}
				return bent{s, slow(3000, 8, stall/2), nil}
			}
			g.plan.Pieces = plan.Pieces(g.params, 0, g.plan.Offers[:n-lazy])
			began := time.Now()
			g.start(g.rest()...)
			clear(g.running[n-lazy:])
			for _, r := range g.running[:n-lazy] {
				<-r.Complete()
			}
			if took := time.Since(began); took > stall/8 {
				t.Errorf("%d slow readers: it took %v", lazy, took)
			}
			g.check()
		})
	}
}

// A stream that keeps its lane gives it back all the same, and goes without one for a while, which
// is longer each time. One whose frames are taken soon has a lane for each.
func TestAStreamThatKeepsItsLaneGoesWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 8 * time.Second
		ls := newLanes(1, stall)
		frame := func(use *laneUse, takes time.Duration) (waited time.Duration, lane bool) {
			began := time.Now()
			done := ls.turn(context.Background(), use)
			waited, lane = time.Since(began), len(ls.taken) == 1
			time.Sleep(takes)
			done()
			if len(ls.taken) != 0 {
				t.Fatal("a lane was not given back")
			}
			return waited, lane
		}
		var slow, fast laneUse
		done := ls.turn(t.Context(), &slow)
		if waited, lane := frame(&fast, 0); waited > stall/16 || !lane {
			t.Errorf("a frame waited %v for one that hangs, with a lane: %v", waited, lane)
		}
		done()
		for _, without := range []int{4, 16, 64} {
			for i := range without + 1 {
				if _, lane := frame(&slow, stall); lane != (i == without) {
					t.Fatalf("%d frames after it kept its lane too long it has one: %v", i, lane)
				}
			}
		}
		for range 10 {
			if _, lane := frame(&fast, stall/64); !lane {
				t.Error("a stream that writes soon goes without a lane")
			}
		}
		// On a slow uplink each frame takes longer than a receiver that hardly reads would be given
		// on a fast one. The streams go on taking turns there, after the first frames.
		ls = newLanes(4, stall)
		var streams [8]laneUse
		for i := range 40 * len(streams) {
			if _, lane := frame(&streams[i%len(streams)], stall/10); i >= 10*len(streams) && !lane {
				t.Fatalf("frame %d has no lane", i)
			}
		}
	})
}

// collector is a stream that takes all that is written and remembers the sizes of the Writes.
type collector struct {
	wire.Stream
	all    []byte
	writes []int
}

func (c *collector) Write(b []byte) (int, error) {
	c.all = append(c.all, b...)
	c.writes = append(c.writes, len(b))
	return len(b), nil
}

func (c *collector) SetWriteDeadline(time.Time) error { return nil }

func newLink(together int) (*link, *collector) {
	c := &collector{}
	return &link{s: c, stall: time.Minute, sent: new(atomic.Uint64), together: together}, c
}

// What is put together is the same bytes in the same order as what is not. Small frames share a
// Write, and a large frame's header never travels alone.
func TestPutTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	apart, want := newLink(0)
	joined, got := newLink(outBytes)
	for i := range 200 {
		payload := bytes.Repeat([]byte{byte(i)}, rng.IntN([]int{100, outBytes, 5 * outBytes}[i%3]))
		for _, l := range []*link{apart, joined} {
			err := l.writeFrame(kindRaw, i, payload)
			if i%17 == 0 {
				err = errors.Join(err, l.writeAlive(uint64(i)))
			}
			if err != nil || len(l.out) > outBytes {
				t.Fatalf("%d bytes wait: %v", len(l.out), err)
			}
		}
	}
	if err := joined.flush(); err != nil || !bytes.Equal(got.all, want.all) ||
		joined.sent.Load() != uint64(len(want.all)) {
		t.Errorf("other bytes are written together than apart: %v", err)
	}
	l, c := newLink(outBytes)
	for i := range 8 {
		_ = l.writeFrame(kindRaw, i, make([]byte, 4096))
	}
	if err := l.flush(); err != nil || !slices.Equal(c.writes, []int{8 * (headerSize + 4096)}) {
		t.Errorf("8 small frames are written in pieces of %v: %v", c.writes, err)
	}
	l, c = newLink(outBytes)
	if err := l.writeFrame(kindRaw, 0, make([]byte, 256<<10)); err != nil || c.writes[0] != outBytes ||
		len(c.writes) > 3 || len(l.out) != 0 {
		t.Errorf("a large frame is written in pieces of %v, %d bytes wait: %v", c.writes, len(l.out), err)
	}
}

// Time without a write does not count, two writes at once count once for all together, and too
// little says nothing.
func TestRates(t *testing.T) {
	now := time.Unix(0, 0)
	e := &Engine{meter: newMeter()}
	e.meter.now = func() time.Time { return now }
	a, b := e.meter.counter("a"), e.meter.counter("b")
	step := func(d time.Duration) { now = now.Add(d) }
	endA := a()
	step(time.Second / 2)
	endB := b()
	step(time.Second / 2)
	endA(4_000_000)
	step(time.Second / 2)
	endB(8_000_000)
	step(time.Hour)
	up, to := e.Rates(nil)
	if up != 8000 || to["b"] != 8000 || len(to) != 1 {
		t.Errorf("uplink %d, to %v: want 8000, and b alone, as a was sent less than a sample needs", up, to)
	}
	endA = a()
	step(time.Second)
	endA(4_000_000)
	endB = b()
	step(time.Second)
	endB(16_000_000)
	if up, to = e.Rates(nil); up != 12000 || to["a"] != 4000 || to["b"] != 12000 {
		t.Errorf("uplink %d, to %v", up, to)
	}
	for i := range 2 * maxRated {
		e.meter.counter(slot.PeerID(fmt.Sprint(i)))
	}
	if n := len(e.meter.mu.peers); n > maxRated {
		t.Errorf("%d peers are remembered", n)
	}
}

// What was measured on another way than the one that leads to a peer now says nothing; what was
// measured on this one stays.
func TestRatesOfOtherWays(t *testing.T) {
	now := time.Unix(0, 0)
	e := &Engine{meter: newMeter()}
	e.meter.now = func() time.Time { return now }
	send := func(p slot.PeerID, took time.Duration) {
		end := e.meter.counter(p)()
		now = now.Add(took)
		end(8_000_000)
	}
	for _, c := range []struct {
		relayed  bool // the way to a; that to b is direct
		to       time.Duration
		up, a, b uint32 // before that
	}{
		{relayed: true, to: 8 * time.Second},
		{relayed: true, to: 8 * time.Second, up: 8000, a: 1000, b: 8000},
		{relayed: false, to: time.Second, up: 8000, b: 8000},
		{relayed: false, to: time.Second, up: 8000, a: 8000, b: 8000},
		{relayed: true, to: 8 * time.Second, up: 8000, b: 8000},
		{relayed: true, to: 8 * time.Second, up: 8000, a: 1000, b: 8000},
	} {
		up, to := e.Rates(map[slot.PeerID]bool{"a": c.relayed, "b": false})
		if up != c.up || to["a"] != c.a || to["b"] != c.b {
			t.Errorf("%+v: uplink %d, to %v", c, up, to)
		}
		send("a", c.to)
		send("b", time.Second)
	}
	if all := e.meter.mu.all.average; all > 2_000_000 {
		t.Errorf("the uplink by itself is still that of the direct way: %.0f", all)
	}
}
