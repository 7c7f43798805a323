package allreduce

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A contribution that no honest peer makes, or that is not what was offered, is put down to its
// sender by each owner that gets it, and to nobody else. What proves a fault is told, and the
// others go on without the sender.
func TestBadContributionsAreNamed(t *testing.T) {
	const sender = 1
	var g *group
	var c *Contribution // a copy of the sender's
	value := func(v float32) func() {
		return func() {
			for _, piece := range g.plan.Pieces {
				g.vectors[sender][piece.Range.End-3] = v
			}
			c.data = kernel.Bytes(g.vectors[sender])
		}
	}
	norm := func(change func(v float64) float64) func() {
		return func() {
			for f := range c.leaves {
				c.leaves[f].NormSq = change(c.leaves[f].NormSq)
			}
			c.Recommit()
			g.offer(sender, c)
		}
	}
	scale := func(bits uint32) func() {
		return func() {
			grid := g.engines[0].grids[0]
			for at := 0; at < len(c.data); at += grid.Codec.EncodedSize(grid.Codec.Block) {
				binary.LittleEndian.PutUint32(c.data[at:], bits)
			}
		}
	}
	more := func(v float64) float64 { return math.Nextafter(v, 2*v) }
	less := func(v float64) float64 { return math.Nextafter(v, 0) }
	f32, blocks := []string{codec.F32}, []string{codec.Int4, codec.Int8, codec.Sign}
	for _, row := range []struct {
		name   string
		codecs []string
		change func()
		bytes  bool // it commits to these
		want   Reason
		proof  bool
	}{
		{"NaN", f32, value(float32(math.NaN())), true, BadValue, true},
		{"-Inf", f32, value(float32(math.Inf(-1))), true, BadValue, true},
		{"a scale that is none", blocks, scale(0x7fc00000), true, BadBytes, true},
		{"a scale below 0", blocks, scale(math.Float32bits(-1)), true, BadBytes, true},
		{"a tiny scale", blocks, scale(1), true, BadBytes, true},
		{"a scale too large", blocks[:2], scale(math.Float32bits(0x1p99)), true, BadValue, true},
		{"a sign too large", blocks[2:], scale(math.Float32bits(0x1p100)), true, BadValue, true},
		{"other frames", f32, func() {
			for f := 0; f < len(c.data); f += c.grid.FrameBytes {
				c.data[f]++
			}
		}, false, BadBytes, false},
		{"other frames, packed", f32, func() {
			clear(c.data)
			g.engines[sender].raw.always = packZstd
		}, false, BadBytes, false},
		{"a leaf's hash", f32, func() { c.leaves[0].Hash[0]++ }, false, BadBytes, false},
		{"a leaf's norm", f32, func() { c.leaves[0].NormSq++ }, false, BadBytes, false},
		{"norms too great", f32, norm(more), false, FalseNorm, true},
		{"norms too little", f32, norm(less), false, FalseNorm, true},
		{"no norms", f32, norm(func(float64) float64 { return math.NaN() }), false, FalseNorm, false},
		{"another total", f32, func() { g.plan.Offers[sender].NormSq *= 1 + 1e-15 }, false, FalseNorm, false},
	} {
		for i, name := range row.codecs {
			t.Run(row.name+", "+name, func(t *testing.T) {
				p := testParams(12<<10, 1<<10)
				p.Codec, p.Clip = name, i > 0
				bubble(t, p, 3, time.Minute, func(in *group) {
					own := in.own[sender]
					g, c = in, &Contribution{
						data: slices.Clone(own.data), peer: own.peer, leaves: slices.Clone(own.leaves), root: own.root,
						grid: own.grid,
					}
					g.own[sender] = c
					if row.change(); row.bytes {
						g.offer(sender, commit(g.engines[0].grids[0], sender, c.data))
					}
					g.start(0, 1, 2)
					time.Sleep(time.Second)
					g.names([]int{0, 2}, sender, row.want)
					for peer, reason := range g.sinks[sender].lost() {
						if peer != peerName(sender) && reason != Refused {
							t.Errorf("the sender names %s for %s", peer, reason)
						}
					}
					if row.proof {
						g.proves(sender, g.sinks[0].mu.errs[0])
					}
					g.finish(sender)
				})
			})
		}
	}
}

// proves fails unless an error holds a frame that its contributor has committed to, and is no good.
func (g *group) proves(peer int, err error) {
	g.t.Helper()
	var bad *BadFrame
	if !errors.As(err, &bad) {
		g.t.Fatalf("%v proves nothing", err)
	}
	grid := g.engines[0].grids[0]
	root, ok := slot.ContributionRootFrom(bad.Peer, bad.Leaf, bad.Frame, bad.Path, grid.FrameBytes,
		uint64(grid.TotalBytes))
	if !ok || root != g.own[peer].root || bad.Leaf.Hash != slot.Hash(bad.Bytes) ||
		new(frame).check(grid, bad.Frame, bad.Bytes, bad.Leaf) == nil {
		g.t.Errorf("%v proves nothing", bad)
	}
	if leaves, ok := g.running[0].Leaves(bad.Peer); !ok ||
		!slices.EqualFunc(leaves, g.own[peer].leaves, slot.FrameLeaf.Equal) {
		g.t.Error("the reduction does not know what the peer has committed to")
	}
}

// Owners go on without a sender of bad values from the frame on in which the first one stands.
func TestWhatCameBeforeABadValueCounts(t *testing.T) {
	bubble(t, testParams(4000, 100), 4, time.Minute, func(g *group) {
		for _, piece := range g.plan.Pieces {
			g.vectors[3][piece.Range.End-3] = float32(math.NaN())
		}
		g.offer(3, commit(g.engines[0].grids[0], 3, kernel.Bytes(g.vectors[3])))
		g.start(0, 1, 2, 3)
		time.Sleep(time.Second)
		g.running[3] = nil
		for _, s := range g.outcome() {
			if last := s.Range.End%1000 == 0; s.Contributors.Has(3) == last || last && s.Range.Len() != 100 {
				t.Errorf("range %v has contributors %v", s.Range, s.Contributors)
			}
		}
	})
}

// The element named is the first bad one, whichever core met one first.
func TestEncodeNamesTheFirstBadElement(t *testing.T) {
	p := testParams(64*100, 100)
	v := make([]float32, 64*100)
	v[333], v[6000] = float32(math.Inf(1)), float32(math.NaN())
	for range 20 {
		_, err := Encode(p, 0, "ada", Vector(v), nil)
		if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "element 333:") {
			t.Fatal(err)
		}
	}
}

// What a contribution is changed to is what Encode would have made of it, in every codec.
func TestChange(t *testing.T) {
	for _, name := range []string{"f32", "int8", "sign", "topk:8:4"} {
		p := testParams(3*4096+5, 4096)
		p.Codec, p.Schedule = name, Rotation
		encode := func(by float32) *Contribution {
			v := make(Vector, p.Fragments[0])
			for i := range v {
				v[i] = by * float32(i%97-48)
			}
			c, err := Encode(p, 0, "ada", v, nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c, want := encode(1), encode(-16).Values()
		x := c.Values()
		for i := range x {
			x[i] *= -16
		}
		if err := c.Change(x); err != nil || !slices.Equal(c.Values(), want) || c.Root() == encode(1).Root() ||
			name == "f32" && c.Root() != encode(-16).Root() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A peer that cannot be reached, or stands still in the middle, holds everybody up. All who have
// streams with it name it, and nobody the others that wait for it as well; in a ring these are its
// neighbours, and they say it again in the next circle. The others go on without it.
func TestWhoHoldsUpIsNamed(t *testing.T) {
	const victim, other = 2, 5
	for name, ring := range map[string][]uint16{
		"absent": nil, "absent in a ring": {0, 1, 2, 3, 4, 5}, "frozen": nil, "frozen in a ring": {0, 3, 2, 1, 5, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, testParams(20_000, 100), 6, 10*time.Second, func(g *group) {
				g.plan.Ring = ring
				by := g.rest(victim)
				if ring != nil {
					by = []int{1, 3}
				}
				absent := strings.HasPrefix(name, "absent")
				var frozen atomic.Bool
				stop := func(b []byte) int {
					if frozen.Load() {
						time.Sleep(time.Hour) // as a process that has stopped
					}
					return len(b)
				}
				g.wrap = func(local, _ int, s wire.Stream) wire.Stream {
					if local == victim {
						return bent{s, stop, stop}
					}
					return s
				}
				g.after(victim, 40, func() { frozen.Store(true) })
				if g.dead[victim].Store(absent); absent {
					g.start(g.rest(victim)...)
				} else {
					g.start(g.rest()...)
				}
				time.Sleep(2 * time.Minute)
				g.names(by, victim, Connection)
				if ring != nil {
					g.nobody([]int{0, 4, 5})
					<-g.running[1].Settled()
					g.revise(other)
					g.start(g.rest(victim)...)
					time.Sleep(2 * time.Minute)
					told := 0
					for len(g.losses) > 0 {
						if <-g.losses == peerName(victim) {
							told++
						}
					}
					if told != 4 {
						t.Errorf("its neighbours name it %d times in two circles", told)
					}
				}
				g.finish(victim)
			})
		})
	}
}

// Links on which a frame takes several times the stall limit are slow, not dead; nor is one lost
// that is ten times slower than the others', through many stall limits; nor where an owner learns
// of the plan late and finds the others' first frames there already.
func TestSlowIsNotDead(t *testing.T) {
	const stall = 8 * time.Second
	type pace struct { // so many bytes pass at once, each time
		bytes int
		each  time.Duration
	}
	for name, c := range map[string]struct {
		ring         bool
		elements     int
		others, peer pace          // of all, and of peer 2
		late         time.Duration // peer 0 begins
	}{
		"a frame in many stalls": {false, 1200, pace{200, stall / 2}, pace{30, stall / 2}, 0},
		"a neighbour in a ring":  {true, 1200, pace{400, 0}, pace{30, stall / 2}, 0},
		"one link":               {false, 12_000, pace{20, 100 * time.Millisecond}, pace{20, time.Second}, 0},
		"all links":              {false, 12_000, pace{20, time.Second}, pace{20, time.Second}, 0},
		"an owner comes late": {
			false, 12_000, pace{20, 25 * time.Millisecond}, pace{20, 750 * time.Millisecond}, 4 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, testParams(c.elements, 100), 4, stall, func(g *group) {
				g.size = 1 << 20
				g.apart()
				if c.ring {
					g.goRound()
				}
				opening := len(g.opening(1, 0))
				g.wrap = func(local, _ int, s wire.Stream) wire.Stream {
					if local == 2 {
						return bent{s, nil, slow(opening, c.peer.bytes, c.peer.each)}
					}
					return bent{s, nil, slow(opening, c.others.bytes, c.others.each)}
				}
				began := time.Now()
				g.start(1, 2, 3)
				time.Sleep(c.late)
				g.start(0)
				for _, r := range g.running {
					<-r.Complete()
				}
				if took := time.Since(began); !c.ring && took < 3*outpacedStalls*stall {
					t.Fatalf("it took %v: too short to show anything", took)
				}
				g.check()
				g.nobody(g.rest())
			})
		})
	}
}

// Peers that send a byte now and then show life without end. Owners go on without them after a few
// stall limits: what came before counts, the others' results are whole, and nobody else is named.
func TestWhoDripsIsLeftOut(t *testing.T) {
	const stall, frame = 10 * time.Second, headerSize + 400
	const leaves = 50 * slot.FrameLeafSize
	for _, after := range []int{10, leaves, leaves + 4*frame, leaves + 6*frame + 100} {
		bubble(t, testParams(5000, 100), 5, stall, func(g *group) {
			g.size = 1 << 20
			bad, good := []int{1, 4}, []int{0, 2, 3}
			g.drip(helloSize+after, stall*9/10, bad...)
			began := time.Now()
			g.start(g.rest()...)
			g.running[1], g.running[4] = nil, nil
			g.check()
			if took := time.Since(began); took > 10*stall {
				t.Errorf("it took %v, with a stall limit of %v", took, stall)
			}
			for _, s := range g.outcome() {
				owner, last := g.owner(s.Range.Begin), s.Range.End%1000 == 0
				for _, i := range bad {
					if last && s.Contributors.Has(i) != (owner == i) {
						t.Errorf("range %v has contributors %v", s.Range, s.Contributors)
					}
				}
			}
			time.Sleep(2 * stall)
			for _, i := range good {
				l := g.sinks[i].lost()
				if len(l) != 2 || l[peerName(1)] != Connection || l[peerName(4)] != Connection {
					t.Errorf("peer %d names %v", i, l)
				}
			}
		})
	}
	// Of two peers nobody can say which is slow; but a link on which so little comes is as good as
	// dead.
	bubble(t, testParams(2000, 100), 2, stall, func(g *group) {
		g.drip(helloSize+20*slot.FrameLeafSize+3*frame+100, stall/2, 1)
		g.start(0, 1)
		time.Sleep(11 * stall)
		g.names([]int{0}, 1, Connection)
	})
}

// drip has some peers pass byte by byte what they contribute, after so many bytes of each stream.
func (g *group) drip(after int, each time.Duration, peers ...int) {
	g.wrap = func(local, _ int, s wire.Stream) wire.Stream {
		if !slices.Contains(peers, local) {
			return s
		}
		return bent{s, nil, opened(true, slow(after, 1, each))}
	}
}

// A peer that says alive and does not do what it should is named in the end: one that opens no
// stream, one that contributes nothing, and an owner that never reduces.
func TestAliveIsNotEnough(t *testing.T) {
	for name, c := range map[string]struct {
		frames       int // the peer contributes; -1: it opens no stream
		before, most time.Duration
	}{
		"no stream":           {-1, 900 * time.Millisecond, 1500 * time.Millisecond},
		"nothing":             {0, 1500 * time.Millisecond, 3 * time.Second},
		"nothing as an owner": {5, 3 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, testParams(1000, 100), 2, time.Second, func(g *group) {
				owner := g.play()
				g.start(0)
				contributor, s := g.dial(1, 0)
				if c.frames >= 0 {
					g.begin(contributor, 1, 0, c.frames)
				}
				go func() {
					for contributor.writeAlive(0) == nil && owner.writeAlive(0) == nil {
						time.Sleep(time.Second / 4)
					}
				}()
				time.Sleep(c.before)
				g.nobody([]int{0})
				time.Sleep(c.most - c.before)
				g.names([]int{0}, 1, Connection)
				_ = s.Reset()
			})
		})
	}
}

// All owners that wait for a contributor when the plan goes on without it name it, though the
// report of one was enough for the leader. One that has done all that it owes is named by nobody,
// whatever the plan says; nor one that came too late to be waited for long, one whose frame comes,
// however slowly, or one whose frames wait for those of another.
func TestWhoIsGoneAndSilentIsNamedByAll(t *testing.T) {
	const silent = 3
	for name, c := range map[string]struct {
		frames int // it gives to each owner; -1: it opens no stream
		drips  bool
		away   []int // others
		after  time.Duration
		named  bool
	}{
		"opens no stream":            {frames: -1, after: 3 * time.Second, named: true},
		"says hello":                 {after: 3 * time.Second, named: true},
		"gives some frames":          {frames: 2, after: 3 * time.Second, named: true},
		"is gone at once":            {frames: -1, after: time.Second},
		"a frame comes":              {drips: true, after: 2500 * time.Millisecond},
		"its frames wait for a peer": {frames: 2, away: []int{2}, after: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, testParams(4000, 100), 4, 4*time.Second, func(g *group) {
				owners := g.rest(append(c.away, silent)...)
				g.start(owners...)
				for _, to := range owners {
					if c.frames < 0 {
						continue
					}
					l, s := g.dial(silent, to)
					if g.begin(l, silent, to, c.frames); c.drips {
						frame := g.frame(silent, to, 0)
						go func() {
							for _, b := range frame {
								_, _ = s.Write([]byte{b})
								time.Sleep(10 * time.Millisecond)
							}
						}()
					}
				}
				time.Sleep(c.after)
				g.revise(silent)
				g.start(owners...)
				synctest.Wait()
				if c.named {
					g.names(owners, silent, Connection)
				} else {
					g.nobody(owners)
				}
				time.Sleep(5 * time.Second) // who drips has written all
			})
		})
	}
}

// A peer stays within the window while another one keeps the owner, or the ring, waiting, so that
// memory is bounded.
func TestWindowIsKept(t *testing.T) {
	for _, ring := range []bool{false, true} {
		bubble(t, testParams(90_000, 100), 3, time.Minute, func(g *group) {
			g.size = 1 << 20 // a transport that would take more
			g.silent = 2
			from, to := 1, 0
			if ring {
				g.plan.Ring = []uint16{0, 1, 2}
				from, to = 0, 1
			}
			g.start(0, 1)
			_, s := g.dial(2, 0)
			if ring {
				_, _ = s.Write(g.opening(0, 1))
			}
			synctest.Wait()
			var window int
			if ring {
				window = g.running[to].schedule.(*rings).current.window
			} else {
				window = g.running[to].schedule.(*rotation).window
			}
			most := len(g.opening(from, to)) + window*(400+headerSize)
			if _, received := g.running[to].Traffic(); int(received) != most {
				t.Errorf("ring %v: %d bytes received, want a window: %d", ring, received, most)
			}
			_ = s.Reset()
		})
	}
}

// Ranges are counted that owners close, not circles: however often the ring breaks before anything
// comes round.
func TestRingCountsRangesThatAreReduced(t *testing.T) {
	bubble(t, testParams(4000, 100), 6, time.Second, func(g *group) {
		g.plan.Ring = []uint16{0, 1, 2, 3, 4, 5}
		g.wrap = func(local, _ int, s wire.Stream) wire.Stream {
			if local == 5 { // says hello, and no more
				return bent{s, nil, slow(helloSize, 1, time.Hour)}
			}
			return s
		}
		for _, gone := range []int{1, 3, 5} {
			g.start(g.rest()...)
			time.Sleep(time.Second / 2)
			g.revise(gone)
		}
		g.start(g.rest()...)
		g.check()
		for _, i := range g.rest() {
			closed := make(map[slot.Range]bool)
			for _, s := range g.sinks[i].mu.done {
				closed[s.Range] = true
			}
			if n := int(g.running[i].ranges.Load()); n != len(closed) {
				t.Errorf("peer %d counts %d ranges and closed %d", i, n, len(closed))
			}
		}
	})
}
