package allreduce

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
)

// Frames travel compressed where that pays: zeros and sparse values shrink to little, int4 by some
// percent, f32 noise not at all. The sender decides, frame by frame; roots and hashes are of the
// frames as they are. A packed frame's payload is
//
//	method u8 | compressed bytes
//
// and always shorter than the frame.

// packMethod says how a packed frame is compressed. The enumeration only grows.
type packMethod uint8

const (
	packS2   packMethod = 1 // an s2 block: fast, finds repetitions alone
	packZstd packMethod = 2 // a zstd frame: slower, and codes bytes by their frequency
)

// packMethods are those that are tried.
var packMethods = [...]packMethod{packS2, packZstd}

const (
	packSample = 16 << 10 // bytes that a sample takes of a frame
	// bytes from one sample to the next: with some 30 us each they cost half a percent of what
	// sending costs
	packEvery     = 8 << 20
	packLeast     = 512  // smaller frames go as they are
	packWorth     = 0.92 // of a frame's size is what it must shrink to
	packAndUnpack = 1.5  // times what packing costs; unpacking is faster
	// how far back zstd looks: a usual frame has 256 KiB, and an encoder, of which there is one for
	// each core, keeps twice as much
	packWindow = 256 << 10
)

// coders are an engine's, made when they are first needed. Used for whole frames alone they run no
// goroutines, and need no end.
type coders struct {
	encoder func() *zstd.Encoder
	decoder func() *zstd.Decoder
	scratch sync.Pool // of *[]byte: rooms of packed frames that come in
}

func newCoders() *coders {
	return &coders{encoder: sync.OnceValue(newEncoder), decoder: sync.OnceValue(newDecoder)}
}

func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(packWindow), zstd.WithAllLitEntropyCompression(true))
	if err != nil {
		panic("allreduce: " + err.Error()) // the options are constants
	}
	return e
}

// newDecoder's WithDecodeAllCapLimit: nothing outgrows the slice it is decoded to, whatever it says
// of itself.
func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*plan.Float32Size*plan.MaxFrameElements),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("allreduce: " + err.Error())
	}
	return d
}

// compress appends src, compressed, to dst, which has room.
func (c *coders) compress(m packMethod, dst, src []byte) []byte {
	if m == packZstd {
		return c.encoder().EncodeAll(src, dst)
	}
	n := len(dst)
	return dst[:n+len(s2.Encode(dst[n:cap(dst)], src))]
}

// unpack fills dst with a packed frame, whose every byte is foreign. The error wraps errBadBytes.
func (c *coders) unpack(dst, packed []byte) error {
	method, b := packMethod(packed[0]), packed[1:]
	var got []byte
	var err error
	switch method {
	case packS2:
		var n int
		// else it would make room for as much as it says
		if n, err = s2.DecodedLen(b); err == nil && n == len(dst) {
			got, err = s2.Decode(dst, b)
		}
	case packZstd:
		got, err = c.decoder().DecodeAll(b, dst[:0:len(dst)])
	default:
		return fmt.Errorf("%w: frame packed by method %d", errBadBytes, method)
	}
	if err != nil {
		//nolint:errorlint // theirs is no condition to tell apart
		return fmt.Errorf("%w: packed frame: %v", errBadBytes, err)
	}
	if len(got) != len(dst) {
		return fmt.Errorf("%w: packed frame of another size than %d bytes", errBadBytes, len(dst))
	}
	return nil
}

// packer decides for one kind of frames, of all streams of an engine, what packing pays: what it
// saves on the wire, at the rate at which writes are taken, must be more than it costs on both
// ends. A sample of a frame now and then says how much it saves, and what it costs; while frames
// are packed, they do.
type packer struct {
	coders *coders
	always packMethod // if set, pack all by it: for tests

	mu struct {
		sync.Mutex
		left    int // bytes until the next sample; the first frame is one
		tally   [len(packMethods)]packTally
		bytes   float64 // written lately, and how long it took
		seconds float64
	}
}

// packTally is what came of packing by one method lately.
type packTally struct{ in, out, seconds float64 }

// fading is how much of a tally stays with each frame.
const fading = 0.9

func (t *packTally) add(in, out int, took time.Duration) {
	t.in, t.out, t.seconds = fading*t.in+float64(in), fading*t.out+float64(out), fading*t.seconds+took.Seconds()
}

// wrote takes in that so many bytes were taken by a stream in so long a time.
func (p *packer) wrote(n int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.bytes, p.mu.seconds = fading*p.mu.bytes+float64(n), fading*p.mu.seconds+took.Seconds()
}

// choose is the method that pays most; ok is false if none does.
func (p *packer) choose() (best packMethod, ok bool) {
	if p.always != 0 {
		return p.always, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.bytes == 0 {
		return 0, false
	}
	perByte, most := p.mu.seconds/p.mu.bytes, 0.0 // on the wire
	for i, t := range p.mu.tally {
		if t.in == 0 || t.out > packWorth*t.in {
			continue
		}
		if gain := ((t.in-t.out)*perByte - packAndUnpack*t.seconds) / t.in; gain > most {
			best, most = packMethods[i], gain
		}
	}
	return best, most > 0
}

// due says whether a sample is to be taken of a frame of n bytes.
func (p *packer) due(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.left -= n; p.mu.left > 0 {
		return false
	}
	p.mu.left = packEvery
	return true
}

// pack returns a frame packed, or nil where it should go as it is.
func (p *packer) pack(frame []byte) []byte {
	if len(frame) < packLeast {
		return nil
	}
	if p.due(len(frame)) {
		p.sample(frame)
	}
	m, ok := p.choose()
	if !ok {
		return nil
	}
	packed := p.try(m, frame)
	if len(packed) >= len(frame) || p.always == 0 && float64(len(packed)) > packWorth*float64(len(frame)) {
		return nil
	}
	return packed
}

// sample tries each method on a part of a frame, from its middle.
func (p *packer) sample(frame []byte) {
	n := min(len(frame), packSample)
	part := frame[(len(frame)-n)/2:][:n]
	for _, m := range packMethods {
		p.try(m, part)
	}
}

// try packs b by a method and takes in what came of it.
func (p *packer) try(m packMethod, b []byte) []byte {
	began := time.Now()
	packed := p.coders.compress(m, append(make([]byte, 0, 1+s2.MaxEncodedLen(len(b))), byte(m)), b)
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.tally[m-1].add(len(b), len(packed), took)
	return packed
}

// write writes a frame, packed if packed is not nil, and takes in how long that took. The last one
// before a wait is flushed.
func (p *packer) write(l *link, kind frameKind, index int, frame, packed []byte, last bool) error {
	began, b := time.Now(), frame
	if packed != nil {
		kind, b = kind.packed(), packed
	}
	err := l.writeFrame(kind, index, b)
	if err == nil && last {
		err = l.flush()
	}
	p.wrote(len(b), time.Since(began))
	return err
}

// once keeps a packed frame for all it goes to.
type once struct {
	sync.Once
	packed []byte
}

// readFrameInto reads a frame, packed or not, into b, which has its size.
func (l *link) readFrameInto(b []byte, h header, c *coders, count *atomic.Uint64) error {
	if !h.Kind.isPacked() {
		return l.readPayload(b, count)
	}
	room, _ := c.scratch.Get().(*[]byte)
	if room == nil || cap(*room) < int(h.Length) {
		room = new(make([]byte, len(b)))
	}
	defer c.scratch.Put(room)
	packed := (*room)[:h.Length]
	if err := l.readPayload(packed, count); err != nil {
		return err
	}
	return c.unpack(b, packed)
}
