package allreduce

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// reluctant is a stream that is read a few bytes at a time, now and then, after the first ones: its
// peer shows life and takes hardly anything.
type reluctant struct {
	wire.Stream
	left *int
	each time.Duration
}

func (r reluctant) Read(b []byte) (int, error) {
	if *r.left > 0 {
		n, err := r.Stream.Read(b[:min(len(b), *r.left)])
		*r.left -= n
		return n, err
	}
	time.Sleep(r.each)
	return r.Stream.Read(b[:min(len(b), 8)])
}

// Contributors that own nothing, send what they should and hardly read what comes back hold up
// nobody, however many there are. A frame to each of four kept all lanes of an owner, and every
// other frame waited an eighth of a stall.
func TestSlowReadersKeepNobodyWaiting(t *testing.T) {
	const n, stall = 12, 6 * time.Second
	for _, lazy := range []int{3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, testParams(24_000, 100), n, rand.New(rand.NewPCG(11, 1)),
				func(c *Config) { c.Stall = stall })
			g.net.size = 2048
			g.apart()
			g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
				if local < peerName(n-lazy) {
					return s
				}
				left := 3000
				return reluctant{s, &left, stall / 2}
			}
			g.plan.Pieces = Pieces(g.params, 0, g.plan.Offers[:n-lazy])
			began := time.Now()
			g.startAll()
			g.running = g.running[:n-lazy]
			g.wait()
			if took := time.Since(began); took > stall/8 {
				t.Errorf("%d slow readers: it took %v", lazy, took)
			}
			g.check()
			g.close()
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
			for i := range without {
				if _, lane := frame(&slow, stall); lane {
					t.Fatalf("%d frames after it kept its lane too long it has one", i)
				}
			}
			if _, lane := frame(&slow, stall); !lane {
				t.Errorf("after %d frames without a lane it gets none", without)
			}
		}
		for range 10 {
			if _, lane := frame(&fast, stall/64); !lane {
				t.Error("a stream that writes soon goes without a lane")
			}
		}
	})
}

// On a slow uplink each frame takes longer than a receiver that hardly reads would be given on a
// fast one. The streams go on taking turns there, after the first frames.
func TestStreamsOverASlowUplinkTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 6 * time.Second
		ls := newLanes(4, stall)
		var streams [8]laneUse
		for frame := range 40 {
			for i := range streams {
				done := ls.turn(t.Context(), &streams[i])
				if frame >= 10 && len(ls.taken) != 1 {
					t.Fatalf("frame %d of stream %d has no lane", frame, i)
				}
				time.Sleep(stall / 10)
				done()
			}
		}
	})
}
