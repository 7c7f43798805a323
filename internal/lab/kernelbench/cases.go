package kernelbench

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	mostColumns  = 32
	trimPermille = 200     // the run spec's default
	frameBytes   = 1 << 18 // that are hashed at a time
)

// kase is something to measure.
type kase struct {
	name  string
	bytes int  // that one call reads and writes
	plain bool // whether there is a plain loop to compare with
	call  func()
}

// arena is the memory that all cases work on.
type arena struct {
	elements int
	dst      []float32
	columns  [][]float32
	scale    []float32
	p, v, b  []float32 // state of steps
	squares  []float32 // of Adam: not negative
	from, to []byte    // of copies, as long as the longest case's bytes
}

func newArena(elements int) *arena {
	r := rand.New(rand.NewPCG(1, 2))
	vector := func() []float32 {
		x := make([]float32, elements)
		for j := range x {
			x[j] = float32(r.NormFloat64())
		}
		return x
	}
	a := &arena{
		elements: elements, dst: vector(), p: vector(), v: vector(), b: vector(),
		squares: make([]float32, elements),
	}
	for range mostColumns {
		a.columns, a.scale = append(a.columns, vector()), append(a.scale, 0.5)
	}
	half := 4 * elements * (mostColumns + 1) / 2
	// memory that was never written is all one page
	a.from, a.to = bytes.Repeat([]byte{1}, half), bytes.Repeat([]byte{2}, half)
	return a
}

// vectors is a case that reads and writes so many vectors.
func (a *arena) vectors(name string, n int, call func()) kase {
	return kase{name: name, bytes: 4 * n * a.elements, plain: true, call: call}
}

func (a *arena) cases() []kase {
	return slices.Concat(a.reductions(), a.steps(), a.elementwise(), a.codecs(), a.hashes(), a.compressors())
}

func (a *arena) reductions() (cases []kase) {
	for _, n := range []int{4, 8, 16, 32} {
		cols, scale := a.columns[:n], a.scale[:n]
		cases = append(cases, a.vectors(fmt.Sprint("mean n=", n), n+1, func() { kernel.MeanInto(a.dst, cols, scale) }))
		trims := []int{1, 2, 3, allreduce.Trim(trimPermille, n), n / 4, (n - 1) / 2}
		slices.Sort(trims)
		for _, k := range slices.Compact(trims) {
			if k > 0 && 2*k < n {
				cases = append(cases, a.vectors(fmt.Sprint("trimmed mean n=", n, " k=", k), n+1,
					func() { kernel.TrimmedMeanInto(a.dst, cols, scale, k) }))
			}
		}
	}
	return cases
}

func (a *arena) steps() []kase {
	const lr, mu, share = 0.7, 0.9, 0.25
	g, adam := a.columns[0], kernel.AdamAt(0.01, 0.9, 0.99, 1e-8, 3)
	return []kase{
		a.vectors("step sgd", 3, func() { kernel.SGDStep(a.p, g, lr) }),
		a.vectors("step momentum", 5, func() { kernel.MomentumStep(a.p, a.v, g, lr, mu) }),
		a.vectors("step nesterov", 5, func() { kernel.NesterovStep(a.p, a.v, g, lr, mu) }),
		a.vectors("step delayed", 5, func() { kernel.DelayedStep(a.p, a.b, g, lr) }),
		a.vectors("step delayed nesterov", 7, func() { kernel.DelayedMomentumStep(a.p, a.v, a.b, g, lr, mu, share) }),
		a.vectors("step adam", 7, func() { kernel.AdamStep(a.p, a.v, a.squares, g, adam) }),
	}
}

func (a *arena) elementwise() []kase {
	x, y := a.columns[0], a.columns[1]
	return []kase{
		a.vectors("pseudo-gradient", 3, func() { kernel.Sub(a.dst, x, y) }),
		a.vectors("mix", 3, func() { kernel.Mix(a.dst, x, y, 0.5) }),
		a.vectors("bounded", 1, func() {
			if kernel.Bounded(x) >= 0 {
				panic("kernelbench: normal values are not bounded")
			}
		}),
		a.vectors("squared norm", 1, func() {
			if math.IsNaN(kernel.NormSq(x)) {
				panic("kernelbench: a norm of normal values is none")
			}
		}),
	}
}

func (a *arena) codecs() (cases []kase) {
	for _, name := range codec.Names() {
		c, err := codec.New(name)
		if err != nil {
			panic(err) // it is of the list of all
		}
		src := a.columns[0]
		encoded := c.Append(nil, src)
		room := make([]byte, 0, len(encoded))
		work := 4*len(src) + len(encoded)
		cases = append(cases,
			kase{"encode " + name, work, name != codec.F32, func() { c.Append(room, src) }},
			kase{"decode " + name, work, name != codec.F32, func() {
				if err := c.Decode(a.dst, encoded); err != nil {
					panic(err) // it has just been encoded
				}
			}})
	}
	return cases
}

// compressors are the fastest levels of s2 and zstd on frames of int8, as they may be sent; only
// the input is counted.
func (a *arena) compressors() []kase {
	c, err := codec.New(codec.Int8)
	if err != nil {
		panic(err) // the name is a constant
	}
	b := c.Append(nil, a.columns[0])
	room := make([]byte, s2.MaxEncodedLen(frameBytes))
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	each := func(name string, compress func(frame []byte)) kase {
		return kase{name, len(b), false, func() {
			for frame := range slices.Chunk(b, frameBytes) {
				compress(frame)
			}
		}}
	}
	return []kase{
		each("compress s2, int8", func(frame []byte) { s2.Encode(room, frame) }),
		each("compress zstd, int8", func(frame []byte) { z.EncodeAll(frame, room[:0]) }),
	}
}

func (a *arena) hashes() []kase {
	b := kernel.Bytes(a.columns[0])
	return []kase{{"hash blake3, frames", len(b), false, func() {
		for frame := range slices.Chunk(b, frameBytes) {
			slot.Hash(frame)
		}
	}}}
}
