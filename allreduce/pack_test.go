package allreduce

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// What comes out does not depend on how frames travelled: by either method, in every codec, where
// contributors die, and each way.
func TestPackedFramesMatchReference(t *testing.T) {
	eachCodec(t, func(t *testing.T, name string, _ int) {
		for _, m := range packMethods {
			p := deathParams(4)
			p.Codec = name
			g := newGroup(t, p, 4, rand.New(rand.NewPCG(5, 5)))
			for i, e := range g.engines {
				if e.raw.always, e.reduced.always = m, m; i == 3 {
					e.raw.always, e.reduced.always = 0, 0 // each sender decides for itself
				}
			}
			g.startAll()
			g.wait()
			g.check()
			g.checkSinks()
			g.close()
		}
	})
	p := deathParams(7)
	m := newMortalOf(t, p, 7)
	for _, e := range m.engines {
		e.raw.always, e.reduced.always, e.cfg.Logger = packZstd, packS2, quietLogger
	}
	m.dieAfter(2, 30)
	m.startAll()
	m.mourn(2)
	m.kill(2)
	m.bury(2)
	m.wait()
	m.check()
}

// Zeros take next to nothing on the wire, counted as it goes there, where writes are slow enough
// for that to pay: without being told to.
func TestZerosArePacked(t *testing.T) {
	p := testParams(256<<10, 16<<10)
	g := newGroup(t, p, 3, rand.New(rand.NewPCG(6, 6)))
	for i := range g.vectors {
		clear(g.vectors[i])
		g.own[i] = commit(plan.NewGrid(p, 0), peerName(i), kernel.Bytes(g.vectors[i]))
	}
	g.makePlan(rand.New(rand.NewPCG(6, 6)))
	for _, e := range g.engines {
		e.raw.wrote(1<<20, 1000*time.Second) // a slow link
		e.reduced.wrote(1<<20, 1000*time.Second)
	}
	g.startAll()
	g.wait()
	g.check()
	for _, r := range g.running {
		r.Release()
		// Some frames go as they are, while another stream takes the sample or writes to memory are
		// measured: unpacked it would be 1.4 MB.
		if sent, _ := r.Traffic(); sent > 512<<10 {
			t.Errorf("%d bytes were sent of a vector of zeros", sent)
		}
	}
}

// What is packed: what saves more time on the wire than it costs.
func TestPackerChooses(t *testing.T) {
	const mega = 1 << 20
	for _, c := range []struct {
		what   string
		s2     packTally
		zstd   packTally
		perSec float64 // bytes that writes take; 0: not known
		want   packMethod
	}{
		{"nothing is known of the wire", packTally{mega, 0, 0.001}, packTally{mega, 0, 0.001}, 0, 0},
		{"neither shrinks it", packTally{mega, mega, 0.0001}, packTally{mega, 0.99 * mega, 0.002}, mega, 0},
		{"zeros on loopback", packTally{mega, 100, 0.0001}, packTally{mega, 100, 0.0005}, 1000 * mega, packS2},
		{
			"slight gains on loopback",
			packTally{mega, mega, 0.0001},
			packTally{mega, 0.85 * mega, 0.003},
			1000 * mega,
			0,
		},
		{
			"slight gains on a slow link",
			packTally{mega, mega, 0.0001},
			packTally{mega, 0.85 * mega, 0.003},
			10 * mega,
			packZstd,
		},
		{
			"s2 is cheaper, zstd saves more",
			packTally{mega, 0.5 * mega, 0.0002},
			packTally{mega, 0.3 * mega, 0.003},
			1000 * mega, packS2,
		},
		{
			"the same on a slow link",
			packTally{mega, 0.5 * mega, 0.0002},
			packTally{mega, 0.3 * mega, 0.003},
			mega,
			packZstd,
		},
	} {
		p := &packer{coders: newCoders()}
		p.mu.tally = [...]packTally{c.s2, c.zstd}
		if c.perSec > 0 {
			p.wrote(mega, time.Duration(mega/c.perSec*float64(time.Second)))
		}
		if got, ok := p.choose(); got != c.want || ok != (c.want != 0) {
			t.Errorf("%s: method %d, want %d", c.what, got, c.want)
		}
	}
}

// Noise goes as it is, and costs a sample in 8 MiB. When it gives way to zeros, that is noticed.
func TestPackerSamples(t *testing.T) {
	p := &packer{coders: newCoders()}
	noise := make([]float32, 64<<10)
	for i := range noise {
		noise[i] = rand.Float32() - 0.5
	}
	frame, zeros := kernel.Bytes(noise), make([]byte, 256<<10)
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
		if b := p.pack(zeros); b != nil {
			packed++
		}
	}
	if packed == 0 {
		t.Error("zeros were never packed")
	}
	if p.pack(zeros[:packLeast-1]) != nil {
		t.Error("a tiny frame was packed")
	}
}

// Packed bytes of any origin give a frame of exactly its size, or an error; a bomb takes no memory.
func TestUnpackRefuses(t *testing.T) {
	c := newCoders()
	const size = 1 << 10
	frame := bytes.Repeat([]byte{1, 2}, size/2)
	for _, m := range packMethods {
		good := append([]byte{byte(m)}, c.compress(m, make([]byte, 0, 4<<10), frame)...)
		dst := make([]byte, size)
		if err := c.unpack(dst, good); err != nil || !bytes.Equal(dst, frame) {
			t.Errorf("method %d: %v", m, err)
		}
		bomb := append([]byte{byte(m)}, c.compress(m, make([]byte, 0, s2.MaxEncodedLen(64<<20)),
			make([]byte, 64<<20))...)
		for what, b := range map[string][]byte{
			"another size":   append([]byte{byte(m)}, c.compress(m, make([]byte, 0, 4<<10), frame[1:])...),
			"cut":            good[:len(good)-3],
			"a bomb":         bomb,
			"none":           {byte(m), 0},
			"unknown method": append([]byte{77}, good[1:]...),
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := c.unpack(dst, b); !errors.Is(err, errBadBytes) {
				t.Errorf("method %d, %s: %v", m, what, err)
			}
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
				t.Errorf("method %d, %s: %d bytes were allocated", m, what, grown)
			}
		}
	}
	// says 4 GiB
	if err := c.unpack(make([]byte, size), []byte{byte(packS2), 0xff, 0xff, 0xff, 0xff, 0x0f, 1}); !errors.Is(err,
		errBadBytes) {
		t.Errorf("an s2 block of 4 GiB: %v", err)
	}
}

// A frame that is not shorter than the one it stands for is none.
func TestPackedHeaders(t *testing.T) {
	for h, want := range map[header]bool{
		{kindRaw, 3, 100}: true, {kindRaw, 3, 99}: false, {kindRaw, 4, 100}: false, {kindReduced, 3, 100}: false,
		{kindPackedRaw, 3, 99}: true, {kindPackedRaw, 3, 100}: false, {kindPackedRaw, 3, 1 << 31}: false,
		{kindPackedReduced, 3, 50}: false,
	} {
		if got := h.carries(kindRaw, 3, 100); got != want {
			t.Errorf("%v: %v", h, got)
		}
	}
	for _, kind := range []frameKind{kindPackedRaw, kindPackedReduced} {
		if _, err := parseHeader(header{kind, 1, 1}.Append(nil)); err == nil {
			t.Errorf("kind %d without a payload is taken", kind)
		}
		if _, err := parseHeader(header{kind, 1, 2}.Append(nil)); err != nil {
			t.Error(err)
		}
	}
}

// Owners name a contributor whose packed frames are not what it committed to, and contributors an
// owner that does so.
func TestPackedFramesOfOtherBytes(t *testing.T) {
	g := newGroup(t, testParams(64<<10, 4<<10), 3, rand.New(rand.NewPCG(7, 7)))
	g.engines[1].raw.always, g.engines[1].reduced.always = packZstd, packZstd
	own := copyOf(g.own[1])
	own.data = make([]byte, len(own.data)) // zeros, under the hashes of the rest
	g.own[1] = own
	g.startAll()
	for _, owner := range []int{0, 2} {
		<-g.sinks[owner].losses
		if got := g.sinks[owner].lost()[peerName(1)]; got != BadBytes {
			t.Errorf("owner %d: lost for %v", owner, got)
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

func BenchmarkPack(b *testing.B) {
	frame := make([]byte, 256<<10)
	for i := range frame {
		frame[i] = byte(rand.Uint32())
	}
	for _, n := range []int{packSample, len(frame)} {
		for _, m := range packMethods {
			b.Run(fmt.Sprint("method ", m, " noise of ", n), func(b *testing.B) {
				b.SetBytes(int64(n))
				p := &packer{coders: newCoders()}
				for b.Loop() {
					p.try(m, frame[:n])
				}
			})
		}
	}
}
