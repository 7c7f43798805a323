package allreduce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// Zeros take next to nothing on the wire, counted as it goes there, where writes are slow enough
// for that to pay: without being told to.
func TestZerosArePacked(t *testing.T) {
	bubble(t, testParams(256<<10, 16<<10), 3, time.Minute, func(g *group) {
		for i := range g.vectors {
			clear(g.vectors[i])
			g.offer(i, commit(g.engines[0].grids[0], i, kernel.Bytes(g.vectors[i])))
			g.engines[i].raw.wrote(1<<20, 1000*time.Second) // a slow link
			g.engines[i].reduced.wrote(1<<20, 1000*time.Second)
		}
		g.start(g.rest()...)
		g.check()
		for _, r := range g.running {
			r.Release()
			// Some frames go as they are, while another stream takes the sample: unpacked it would
			// be 1.4 MB.
			if sent, _ := r.Traffic(); sent > 512<<10 {
				t.Errorf("%d bytes were sent of a vector of zeros", sent)
			}
		}
	})
}

// What is packed: what saves more time on the wire than it costs.
func TestPackerChooses(t *testing.T) {
	const mega = 1 << 20
	for _, c := range []struct {
		what     string
		s2, zstd [2]float64 // what becomes of a MiB, in MiB, and how long it takes, in ms
		perSec   float64    // MiB that writes take; 0: not known
		want     packMethod
	}{
		{"nothing is known of the wire", [2]float64{0, 1}, [2]float64{0, 1}, 0, 0},
		{"neither shrinks it", [2]float64{1, .1}, [2]float64{.99, 2}, 1, 0},
		{"zeros on loopback", [2]float64{.0001, .1}, [2]float64{.0001, .5}, 1000, packS2},
		{"slight gains on loopback", [2]float64{1, .1}, [2]float64{.85, 3}, 1000, 0},
		{"slight gains on a slow link", [2]float64{1, .1}, [2]float64{.85, 3}, 10, packZstd},
		{"s2 is cheaper, zstd saves more", [2]float64{.5, .2}, [2]float64{.3, 3}, 1000, packS2},
		{"the same on a slow link", [2]float64{.5, .2}, [2]float64{.3, 3}, 1, packZstd},
	} {
		p := &packer{coders: newCoders()}
		for i, m := range [][2]float64{c.s2, c.zstd} {
			p.mu.tally[i] = packTally{mega, m[0] * mega, m[1] / 1000}
		}
		if c.perSec > 0 {
			p.wrote(mega, time.Duration(float64(time.Second)/c.perSec))
		}
		if got, ok := p.choose(); got != c.want || ok != (c.want != 0) {
			t.Errorf("%s: method %d, want %d", c.what, got, c.want)
		}
	}
}

// Noise goes as it is, and costs a sample in 8 MiB. When it gives way to zeros, that is noticed.
func TestPackerSamples(t *testing.T) {
	p := &packer{coders: newCoders()}
	frame, zeros := make([]byte, 256<<10), make([]byte, 256<<10)
	for i := range frame {
		frame[i] = byte(rand.Uint32())
	}
	const frames = 256 // 64 MiB
	samples := 0
	for range frames {
		p.wrote(1<<20, 1000*time.Second)
		before := p.mu.tally[0].in
		if p.pack(frame) != nil {
			t.Fatal("noise was packed")
		}
		if p.mu.tally[0].in != before {
			samples++
		}
	}
	if want := frames * len(frame) / packEvery; samples > want+1 || samples < want {
		t.Errorf("%d samples were taken of %d MiB", samples, frames*len(frame)>>20)
	}
	packed := 0
	for range 4 * packEvery / len(zeros) {
		p.wrote(1<<20, 1000*time.Second)
		if p.pack(zeros) != nil {
			packed++
		}
	}
	if packed == 0 || p.pack(zeros[:packLeast-1]) != nil {
		t.Errorf("zeros were packed %d times; or a tiny frame was", packed)
	}
}

// Values in bf16 repeat nothing, but their exponents are few: on a slow link they go by a fourth
// shorter.
func TestValuesArePacked(t *testing.T) {
	p := &packer{coders: newCoders()}
	var frame []byte
	for range 128 << 10 {
		frame = binary.LittleEndian.AppendUint16(frame, uint16(math.Float32bits(float32(rand.NormFloat64()))>>16))
	}
	for range 2 * packEvery / len(frame) {
		p.wrote(1<<20, 1000*time.Second)
		if packed := p.pack(frame); packed != nil {
			if len(packed) > 8*len(frame)/10 {
				t.Errorf("%d of %d bytes", len(packed), len(frame))
			}
			return
		}
	}
	t.Error("they go as they are")
}

// Packed bytes of any origin give a frame of exactly its size, or an error; a bomb takes no memory.
func TestUnpackRefuses(t *testing.T) {
	c, frame := newCoders(), bytes.Repeat([]byte{1, 2}, 512)
	dst, zeros := make([]byte, len(frame)), make([]byte, 64<<20)
	for _, m := range packMethods {
		packed := func(b []byte) []byte {
			return append([]byte{byte(m)}, c.compress(m, make([]byte, 0, s2.MaxEncodedLen(len(b))), b)...)
		}
		good := packed(frame)
		if err := c.unpack(dst, good); err != nil || !bytes.Equal(dst, frame) {
			t.Errorf("method %d: %v", m, err)
		}
		for what, b := range map[string][]byte{
			"another size": packed(frame[1:]), "cut": good[:len(good)-3], "a bomb": packed(zeros), "none": {byte(m), 0},
			"unknown method": append([]byte{77}, good[1:]...),
			"says 4 GiB":     {byte(packS2), 0xff, 0xff, 0xff, 0xff, 0x0f, 1},
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.unpack(dst, b)
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errBadBytes) || grown > 8<<20 {
				t.Errorf("method %d, %s: %v, and %d bytes were allocated", m, what, err, grown)
			}
		}
	}
}

func FuzzUnpack(f *testing.F) {
	c := newCoders()
	frame := bytes.Repeat([]byte{0, 0, 1}, 100)
	for _, m := range packMethods {
		f.Add(uint16(len(frame)), append([]byte{byte(m)}, c.compress(m, make([]byte, 0, 4<<10), frame)...))
	}
	f.Add(uint16(4), []byte{byte(packS2), 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, size uint16, packed []byte) {
		if len(packed) < packedLeast {
			return
		}
		dst := make([]byte, int(size)+1)[:size] // a byte behind it is not touched
		if err := c.unpack(dst, packed); err != nil && !errors.Is(err, errBadBytes) {
			t.Fatal(err)
		}
		if dst[:cap(dst)][size] != 0 {
			t.Fatal("the byte behind the frame was overwritten")
		}
	})
}
