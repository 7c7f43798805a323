package bench

import (
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// floor is the CPU seconds of a slot's floor, of all peers together, and of its terms, in the order
// of floorUnits. The package's comment has the formula.
type floor [8]float64

const (
	floorUnits = "floor-sec floor-subtract-sec floor-norm-sec floor-encode-sec floor-hash-sec " +
		"floor-network-sec floor-step-sec floor-write-sec"
	// elements of a vector, at least: so that a pass over it lasts long enough to be measured, and
	// does not find it in the cache of a core
	coldElements = 4 << 20
)

// floor measures, by a clock that says what a pass takes, what each term takes for one vector: the
// median of three passes, between which all others pass. It writes a file to a folder.
func (c Case) floor(dir string, clock func(pass func()) float64) (f floor, err error) {
	defer debug.FreeOSMemory() // the peers need it
	c.Alone = true             // then the spec is settled
	s := c.spec("floor", 1)
	elements := max(c.elements(), coldElements)
	k, err := codec.New(s.Codec)
	outer, err2 := outeropt.New(s.OuterConfig(), elements)
	near, far, err3 := tlsPair()
	file, err4 := os.CreateTemp(dir, "floor-*")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return f, err
	}
	defer near.Close()           //nolint:errcheck // nobody uses them any more
	defer far.Close()            //nolint:errcheck
	defer os.Remove(file.Name()) //nolint:errcheck
	defer file.Close()           //nolint:errcheck
	anchor, local, x := noise(elements, 1), noise(elements, 2), make([]float32, elements)
	encoded := k.Append(nil, x)
	received := slices.Clone(encoded)
	share := float64(c.elements()) / float64(elements)
	made, came := share*float64(c.Peers), 2*share*float64(c.Peers-1) // vectors of a slot
	vectors := [...]float64{made, made + came, made, made + came, came, made, made}
	var tries [len(vectors)][]float64
	for range 3 {
		for i, pass := range [...]func(){
			func() { kernel.Sub(x, anchor, local) },
			func() { kernel.NormSq(x) },
			func() { k.Append(encoded[:0], x) },
			func() {
				for frame := range slices.Chunk(encoded, k.EncodedSize(int(s.Frame))) {
					slot.Hash(frame)
				}
			},
			func() { err = errors.Join(err, sendRecords(near, far, encoded, received)) },
			func() { outer.Step(anchor, x, outeropt.At{Step: 1, Contributions: 1}) },
			func() {
				_, failed := file.WriteAt(encoded, 0) // over what the try before has written
				err = errors.Join(err, failed)
			},
		} {
			tries[i] = append(tries[i], clock(pass))
		}
	}
	for i, seconds := range tries {
		f[1+i] = vectors[i] * Median(seconds)
		f[0] += f[1+i]
	}
	return f, err
}

// cpuSeconds is the CPU time that a pass takes. It waits before it looks: the system counts the
// time of a thread that runs from tick to tick, and exactly once the thread sleeps.
func cpuSeconds(pass func()) float64 {
	before := CPUSeconds()
	pass()
	time.Sleep(2 * time.Millisecond)
	return CPUSeconds() - before
}
