package allreduce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// eachCodec runs a test with every codec; f32 has the tests of the other files.
func eachCodec(t *testing.T, test func(t *testing.T, name string, block int)) {
	for _, name := range codec.Names() {
		c, err := codec.New(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { test(t, name, c.Block()) })
	}
}

// Whatever the contributions lose, all peers end with one outcome: what is decoded from them,
// aggregated as the naive reference does, and encoded once. Trimming and clipping work on what is
// decoded.
func TestCodecsMatchReference(t *testing.T) {
	eachCodec(t, func(t *testing.T, name string, block int) {
		for i, a := range []Aggregator{Mean, TrimmedMean, Median} {
			rng := rand.New(rand.NewPCG(uint64(i), 77))
			frame := block * (1 + rng.IntN(3)) * max(1, 256/block)
			p := testParams(frame*(1+rng.IntN(9))+rng.IntN(frame), frame)
			p.Aggregator, p.Clip, p.Codec = a, a != Mean, name
			g := newGroup(t, p, 1+rng.IntN(6), rng)
			g.startAll()
			g.wait()
			g.check()
			g.checkSinks()
		}
	})
}

func TestCodecsWhereContributorsDie(t *testing.T) {
	eachCodec(t, func(t *testing.T, name string, _ int) {
		p := deathParams(7)
		p.Codec = name
		synctest.Test(t, func(t *testing.T) { randomDeaths(t, p, rand.New(rand.NewPCG(3, 9))) })
	})
}

// Fragments that end within a block, in turn.
func TestCodecsInFragments(t *testing.T) {
	eachCodec(t, func(t *testing.T, name string, block int) {
		rng := rand.New(rand.NewPCG(9, 9))
		p := testParams(1, 2*block*max(1, 64/block))
		p.Fragments, p.Codec, p.Aggregator, p.Clip = slot.FragmentElements(10_001, 3), name, TrimmedMean, true
		g := newGroup(t, p, 4, rng)
		for range 4 {
			g.nextSlot(rng)
			g.startAll()
			g.wait()
			g.check()
			g.checkSinks()
			for _, r := range g.running {
				r.Release()
			}
		}
	})
}

// A slot's bytes are those of its codecs, each way.
func TestCodecsSaveWhatTheySay(t *testing.T) {
	eachCodec(t, func(t *testing.T, name string, block int) {
		const peers = 4
		p := testParams(peers*32<<10, 8<<10)
		p.Codec = name
		g := newGroup(t, p, peers, rand.New(rand.NewPCG(1, 2)))
		g.startAll()
		g.wait()
		in, out := g.engines[0].grids[0], g.engines[0].outs[0]
		const beside = peers * (helloSize + 64*headerSize + 16*32 + 100) // hellos, hashes, headers
		want := uint64(in.TotalBytes+out.TotalBytes) * (peers - 1) / peers
		for _, r := range g.running {
			r.Release() // all is sent
			if sent, _ := r.Traffic(); sent < want || sent > want+beside {
				t.Errorf("%d bytes sent, want %d and up to %d beside them", sent, want, beside)
			}
		}
	})
}

// What no encoder writes, and what decodes to more than 2^100, is refused by every owner: the
// sender's fault, whatever it committed to.
func TestHostileQuantisedFrames(t *testing.T) {
	for bits, want := range map[uint32]Reason{
		0x7fc00000: BadBytes, math.Float32bits(-1): BadBytes, 1: BadBytes,
		math.Float32bits(0x1p99): BadValue,
	} {
		for _, name := range []string{codec.Int8, codec.Int4, codec.Sign} {
			t.Run(fmt.Sprintf("%s scale %08x", name, bits), func(t *testing.T) {
				if name == codec.Sign && bits == math.Float32bits(0x1p99) {
					bits = math.Float32bits(0x1p100) // it is itself a value
				}
				p := testParams(8<<10, 1<<10)
				p.Codec = name
				g := newGroup(t, p, 3, rand.New(rand.NewPCG(4, 4)))
				grid := g.engines[0].grids[0]
				for at := 0; at < len(g.own[1].data); at += grid.Codec.EncodedSize(grid.Codec.Block()) {
					binary.LittleEndian.PutUint32(g.own[1].data[at:], bits)
				}
				if _, err := Commit(p, 0, peerName(1), g.own[1].data); !errors.Is(err, wire.ErrMalformed) &&
					!errors.Is(err, ErrNotFinite) {
					t.Errorf("committed to: %v", err)
				}
				g.own[1] = commit(grid, peerName(1), g.own[1].data)
				g.makePlan(rand.New(rand.NewPCG(4, 4)))
				g.start(0)
				g.start(1)
				g.start(2)
				for _, owner := range []int{0, 2} {
					<-g.sinks[owner].losses
					if got := g.sinks[owner].lost()[peerName(1)]; got != want {
						t.Errorf("owner %d: lost for %v, want %v", owner, got, want)
					}
				}
			})
		}
	}
}

// The window bounds what an owner holds, decoded values included.
func TestWindowCountsDecodedFrames(t *testing.T) {
	for _, name := range codec.Names() {
		p := testParams(1<<26, 1<<16)
		p.Codec = name
		g := plan.NewGrid(p, 0)
		held := g.FrameBytes
		if name != codec.F32 {
			held += 4 * g.FrameElements
		}
		for _, n := range []int{2, 8, 64} {
			if w := g.Window(n); w > plan.MinWindow && n*w*held > plan.WindowBytes {
				t.Errorf("%s, %d peers: %d frames of %d bytes each", name, n, w, held)
			}
		}
	}
}
