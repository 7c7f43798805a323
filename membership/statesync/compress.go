package statesync

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Answers of a donor that carry no bytes.
var (
	errNotHeld = errors.New("does not hold it")
	errBusy    = errors.New("is busy")
	errSpent   = errors.New("has given this peer, or its address, all that a newcomer gets from it in an hour")
)

// isRefusal says whether an error is an answer, after which nothing more comes.
func isRefusal(err error) bool {
	return errors.Is(err, errNotHeld) || errors.Is(err, errBusy) || errors.Is(err, errSpent)
}

// readBlock reads one block of least to most decoded bytes. It returns the decoded bytes, in dst's
// memory where they fit, and the number of bytes on the wire.
func (z *zip) readBlock(r io.Reader, dst []byte, least, most int) ([]byte, int, error) {
	var hb [blockHead]byte
	if _, err := io.ReadFull(r, hb[:]); err != nil {
		return nil, 0, err
	}
	h, err := parseHead(hb[:])
	switch {
	case err != nil:
		return nil, 0, err
	case h.Status == statusNotHeld:
		return nil, 0, errNotHeld
	case h.Status == statusBusy:
		return nil, 0, errBusy
	case h.Status == statusSpent:
		return nil, 0, errSpent
	case uint64(h.Size) < uint64(least) || uint64(h.Size) > uint64(most):
		return nil, 0, fmt.Errorf("block of %d bytes: %w (%d to %d)", h.Size, wire.ErrTooLarge, least, most)
	}
	if cap(dst) < int(h.Size) {
		dst = make([]byte, h.Size)
	}
	dst = dst[:h.Size]
	n := blockHead + int(h.Sent)
	if h.Encoding == plain {
		_, err := io.ReadFull(r, dst)
		return dst, n, err
	}
	sent, done := z.borrow(int(h.Sent))
	defer done()
	if _, err := io.ReadFull(r, sent); err != nil {
		return nil, 0, err
	}
	return dst, n, z.decode(dst, sent, h.Encoding)
}

// appendBlock appends a block with these bytes, in the encoding that pays.
func (z *zip) appendBlock(dst, b []byte) []byte {
	start := len(dst)
	if e := z.choose(b); e != plain {
		dst = append(dst, make([]byte, blockHead)...)
		dst = z.encode(dst, b, e)
		if sent := len(dst) - start - blockHead; float64(sent) <= worthwhile*float64(len(b)) {
			head{statusOK, e, uint32(len(b)), uint32(sent)}.append(dst[:start])
			return dst
		}
	}
	dst = head{statusOK, plain, uint32(len(b)), uint32(len(b))}.append(dst[:start])
	return append(dst, b...)
}

// Float32 weights look random to zstd, but their bytes with sign and exponent are not. Gathered
// into planes, those bytes shrink the whole to 85% (BenchmarkCompress: weights .85, a momentum .89,
// zeros to nothing; 580 MB/s in and 1.8 GB/s out on one core), which pays on any link slower than
// that. A sample decides for each block: random bytes cost 20 us a MiB.
const (
	sampleBytes = 16 << 10
	leastBytes  = 512 // smaller blocks go as they are
	worthwhile  = .92 // of the size
	// how far back zstd looks: a block's planes have as much, and an encoder, of which there is one
	// for each core, keeps twice as much
	window = 256 << 10
)

// zip compresses and decompresses blocks. It may be used from any goroutine.
type zip struct {
	enc     *zstd.Encoder
	dec     *zstd.Decoder
	scratch sync.Pool // of *[]byte
}

// borrow returns n bytes of any content, and a function that gives them back.
func (z *zip) borrow(n int) ([]byte, func()) {
	p, _ := z.scratch.Get().(*[]byte)
	if p == nil || cap(*p) < n {
		b := make([]byte, n)
		p = &b
	}
	return (*p)[:n], func() { z.scratch.Put(p) }
}

func newZip() *zip {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(window))
	if err != nil {
		panic("statesync: " + err.Error()) // the options are constants
	}
	// DecodeAllCapLimit: the decoded bytes never outgrow the slice that takes them, whatever size a
	// frame claims.
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*maxFrameBytes), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("statesync: " + err.Error())
	}
	return &zip{enc: enc, dec: dec}
}

func (z *zip) close() {
	_ = z.enc.Close()
	z.dec.Close()
}

// encode appends b compressed. It compresses planes one by one, because a table of codes that fits
// one plane fits no other.
func (z *zip) encode(dst, b []byte, e encoding) []byte {
	if e == zstdWhole {
		return z.enc.EncodeAll(b, dst)
	}
	t, done := z.borrow(len(b))
	defer done()
	toPlanes(t, b)
	n := len(b) / 4
	for k := range 3 {
		dst = z.enc.EncodeAll(t[k*n:(k+1)*n], dst)
	}
	return z.enc.EncodeAll(t[3*n:], dst)
}

// choose picks the encoding by a sample from the middle. It compresses the sample as a whole; for
// planes it computes the entropy, because zstd takes the planes of so small a sample for noise.
func (z *zip) choose(b []byte) encoding {
	if len(b) < leastBytes {
		return plain
	}
	n := min(len(b), sampleBytes) / 4 * 4
	sample := b[(len(b)-n)/8*4:][:n] // begins with an element if b does
	t, done := z.borrow(n)
	defer done()
	whole := float64(len(z.encode(t[:0], sample, zstdWhole)))
	planes := planesEntropy(sample)
	switch {
	case min(whole, planes) > worthwhile*float64(n):
		return plain
	case whole <= planes+64: // four frames have four heads
		return zstdWhole
	}
	return zstdPlanes
}

// planesEntropy is the bytes that b takes if each of its four planes is coded byte by byte.
func planesEntropy(b []byte) (size float64) {
	for k := range 4 {
		var count [256]int
		for i := k; i < len(b); i += 4 {
			count[b[i]]++
		}
		for _, c := range count {
			if c > 0 {
				size += float64(c) * math.Log2(float64(len(b)/4)/float64(c)) / 8
			}
		}
	}
	return size
}

// decode fills dst exactly.
func (z *zip) decode(dst, sent []byte, e encoding) error {
	to := dst
	if e == zstdPlanes {
		t, done := z.borrow(len(dst))
		defer done()
		to = t
	}
	got, err := z.dec.DecodeAll(sent, to[:0:len(to)])
	if err != nil {
		//nolint:errorlint // theirs is no condition to tell apart
		return fmt.Errorf("%w: zstd: %v", wire.ErrMalformed, err)
	}
	if len(got) != len(dst) {
		return fmt.Errorf("%w: zstd gave %d bytes for %d", wire.ErrMalformed, len(got), len(dst))
	}
	if e == zstdPlanes {
		fromPlanes(dst, got)
	}
	return nil
}

// toPlanes gathers byte k of every four, for k = 0..3. The bytes left over stay at the end.
func toPlanes(dst, src []byte) {
	n := len(src) / 4
	p0, p1, p2, p3 := dst[:n], dst[n:2*n], dst[2*n:3*n], dst[3*n:4*n]
	for i := range n {
		s := src[4*i : 4*i+4 : 4*i+4]
		p0[i], p1[i], p2[i], p3[i] = s[0], s[1], s[2], s[3]
	}
	copy(dst[4*n:], src[4*n:])
}

// fromPlanes undoes toPlanes.
func fromPlanes(dst, src []byte) {
	n := len(dst) / 4
	p0, p1, p2, p3 := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
	for i := range n {
		d := dst[4*i : 4*i+4 : 4*i+4]
		d[0], d[1], d[2], d[3] = p0[i], p1[i], p2[i], p3[i]
	}
	copy(dst[4*n:], src[4*n:])
}
