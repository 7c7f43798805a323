package membership

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The log file, all integers big-endian:
//
//	head:  magic (16) | version u32 | run (32) | incarnation u64 | sum (16)
//	frame: length u32 | crc32c of (sum before, length) u32 | length bytes of entries | sum (16)
//	entry: kind u8 | length u32 | fields
//
// A frame is what one Save wrote, so a Save survives whole or not at all. sum is BLAKE3, cut to 16 bytes, of the sum before it
// and of what it closes: frames of another log, or in another order, do not fit. The length has its own check because a wrong one
// would make all that follows look like the torn end of the last write.
const (
	logMagic   = "p2pdiloco/ledger"
	logVersion = 1
	sumSize    = 16
	headSize   = len(logMagic) + 4 + 32 + 8 + sumSize
	frameHead  = 8
)

type logSum [sumSize]byte

func (s logSum) next(b []byte) logSum {
	h := slot.Hash(append(append(make([]byte, 0, sumSize+len(b)), s[:]...), b...))
	return logSum(h[:sumSize])
}

func appendHead(b []byte, run slot.Root, inc slot.Incarnation) ([]byte, logSum) {
	start := len(b)
	b = wire.AppendU32(append(b, logMagic...), logVersion)
	b = wire.AppendU64(appendRoot(b, run), uint64(inc))
	sum := logSum{}.next(b[start:])
	return append(b, sum[:]...), sum
}

func parseHead(b []byte) (run slot.Root, inc slot.Incarnation, sum logSum, err error) {
	r := wire.NewReader(b)
	if magic := r.Take(len(logMagic)); string(magic) != logMagic {
		return run, inc, sum, fmt.Errorf("%w: it does not begin as one does", ErrStoreForeign)
	}
	version := r.U32()
	run, inc = readRoot(r), slot.Incarnation(r.U64())
	if len(b) != headSize || (logSum{}).next(b[:headSize-sumSize]) != logSum(b[headSize-sumSize:]) {
		return run, inc, sum, fmt.Errorf("%w: its head does not fit its checksum", ErrStoreCorrupt)
	}
	if version != logVersion {
		return run, inc, sum, fmt.Errorf("%w: version %d, this program reads %d: use the release that wrote it", ErrStoreForeign, version, logVersion)
	}
	return run, inc, logSum(b[headSize-sumSize:]), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func lengthCheck(before logSum, length []byte) uint32 {
	return crc32.Update(crc32.Checksum(before[:], castagnoli), castagnoli, length)
}

// appendFrame appends one frame holding payload, which must be shorter than 4 GiB.
func appendFrame(b []byte, before logSum, payload []byte) ([]byte, logSum) {
	start := len(b)
	b = wire.AppendU32(b, uint32(len(payload)))
	b = wire.AppendU32(b, lengthCheck(before, b[start:]))
	b = append(b, payload...)
	sum := before.next(b[start:])
	return append(b, sum[:]...), sum
}

// frameReader reads frames one after the other.
type frameReader struct {
	r    io.Reader
	at   int64 // offset of the next frame
	size int64 // of the file
	sum  logSum
}

// next gives the payload of the next frame; io.EOF at the clean end, errTorn if the last write did not reach the disk whole,
// ErrStoreCorrupt if bytes that were once safe have changed.
func (f *frameReader) next() ([]byte, error) {
	left := f.size - f.at
	if left == 0 {
		return nil, io.EOF
	}
	if left < frameHead {
		return nil, errTorn
	}
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(f.r, head); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head))
	if lengthCheck(f.sum, head[:4]) != binary.BigEndian.Uint32(head[4:]) {
		return nil, f.zeroed(head)
	}
	if n > left-frameHead-sumSize {
		return nil, errTorn
	}
	b := make([]byte, frameHead+n+sumSize)
	copy(b, head)
	if _, err := io.ReadFull(f.r, b[frameHead:]); err != nil {
		return nil, err
	}
	got, want := f.sum.next(b[:frameHead+n]), logSum(b[frameHead+n:])
	switch {
	case got == want:
		f.at, f.sum = f.at+int64(len(b)), got
		return b[frameHead : frameHead+n], nil
	case want == logSum{} && int64(len(b)) == left:
		return nil, errTorn
	}
	return nil, fmt.Errorf("%w: checksum of %d bytes is wrong", ErrStoreCorrupt, n)
}

// zeroed tells a frame that was never written (some file systems grow a file before its bytes arrive) from one that changed.
func (f *frameReader) zeroed(head []byte) error {
	buf := head
	for {
		for _, c := range buf {
			if c != 0 {
				return fmt.Errorf("%w: a length is wrong", ErrStoreCorrupt)
			}
		}
		buf = make([]byte, 1<<12)
		n, err := f.r.Read(buf)
		if buf = buf[:n]; n == 0 && err != nil {
			if err == io.EOF {
				return errTorn
			}
			return err
		}
	}
}
