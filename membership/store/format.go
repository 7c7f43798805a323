package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Names in the data directory.
const (
	logName     = "ledger.log"
	newName     = "ledger.log.new" // being written; never read
	recordsName = "ledger.records"
	lockName    = "ledger.lock"
)

// The log file, all integers big-endian:
//
//	head:  magic (16) | version u32 | run (32) | incarnation u64 | sum (16)
//	frame: nonzero(sum before (16) | length u32 | crc32c of both u32)
//	       | nonzero(length bytes of entries) | nonzero(sum (16))
//	entry: kind u8 | length u32 | fields
//
// A frame is what one Save wrote, so a Save survives whole or not at all. sum is BLAKE3, cut to 16
// bytes, of the bytes before it in the frame. So frames of another log, or in another order, do not
// fit. The length has a check of its own, because a wrong length would make everything after it
// look like the torn end of the last write.
//
// A power cut leaves holes: a file grows before its bytes arrive, and they do not arrive in order.
// Missing bytes read as zeros, and a frame contains no zeros (nonzero). So a hole in the last frame
// is a write that was never acknowledged, and it is cut off. A hole with a frame behind it, or a
// changed byte, is damage to something that was acknowledged, and the log is refused.
const (
	logMagic   = "p2pdiloco/ledger"
	logVersion = canonical.Version
	sumSize    = 16
	headSize   = len(logMagic) + 4 + 32 + 8 + sumSize
	frameHead  = 1 + sumSize + 8
	frameTail  = 1 + sumSize
)

type logSum [sumSize]byte

func sumOf(parts ...[]byte) logSum {
	h := slot.Hash(slices.Concat(parts...))
	return logSum(h[:sumSize])
}

func appendHead(b []byte, run slot.Root, inc slot.Incarnation) ([]byte, logSum) {
	start := len(b)
	b = canonical.AppendU32(append(b, logMagic...), logVersion)
	b = canonical.AppendU64(wire.AppendRoot(b, run), uint64(inc))
	sum := sumOf(b[start:])
	return append(b, sum[:]...), sum
}

func parseHead(b []byte) (run slot.Root, inc slot.Incarnation, sum logSum, err error) {
	r := canonical.NewReader(b)
	if magic := r.Take(len(logMagic)); string(magic) != logMagic {
		return run, inc, sum, fmt.Errorf("%w: it does not begin like one", ErrForeign)
	}
	version := r.U32()
	run, inc = wire.ReadRoot(r), slot.Incarnation(r.U64())
	if len(b) != headSize || sumOf(b[:headSize-sumSize]) != logSum(b[headSize-sumSize:]) {
		return run, inc, sum, fmt.Errorf("%w: its head does not fit its checksum", ErrCorrupt)
	}
	if version != logVersion {
		return run, inc, sum, fmt.Errorf("%w: version %d, this program reads %d: use the release that wrote it",
			ErrForeign, version, logVersion)
	}
	return run, inc, logSum(b[headSize-sumSize:]), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameCheck covers the sum before a frame and its length.
func frameCheck(head []byte) uint32 { return crc32.Checksum(head[:sumSize+4], castagnoli) }

// appendFrame appends one frame holding payload, which must be shorter than 4 GiB.
func appendFrame(b []byte, before logSum, payload []byte) ([]byte, logSum) {
	head := canonical.AppendU32(before[:], uint32(len(payload)))
	head = canonical.AppendU32(head, frameCheck(head))
	sum := sumOf(head, payload)
	return appendNonzero(appendNonzero(appendNonzero(b, head), payload), sum[:]), sum
}

// nonzeroPiece is short enough that one of the 255 keys is not among its bytes.
const nonzeroPiece = 254

// appendNonzero appends b in a form without zeros: for each piece a key that is none of its bytes,
// then its bytes XORed with the key.
func appendNonzero(dst, b []byte) []byte {
	for piece := range slices.Chunk(b, nonzeroPiece) {
		key := byte(1)
		for bytes.IndexByte(piece, key) >= 0 {
			key++
		}
		dst = append(dst, key)
		for _, c := range piece {
			dst = append(dst, c^key)
		}
	}
	return dst
}

// nonzeroSize is the number of bytes that appendNonzero makes of n.
func nonzeroSize(n int64) int64 { return n + (n+nonzeroPiece-1)/nonzeroPiece }

// parseNonzero reads what appendNonzero wrote. It returns false if there is a hole in it.
func parseNonzero(b []byte) ([]byte, bool) {
	if bytes.IndexByte(b, 0) >= 0 {
		return nil, false
	}
	plain := make([]byte, 0, len(b))
	for piece := range slices.Chunk(b, 1+nonzeroPiece) {
		for _, c := range piece[1:] {
			plain = append(plain, c^piece[0])
		}
	}
	return plain, true
}

// frameReader reads frames one after the other.
type frameReader struct {
	r    io.Reader
	at   int64 // offset of the next frame
	size int64 // of the file
	sum  logSum
	last []byte // the newest frame as it is in the file
}

// next returns the payload of the next frame. The error is io.EOF at the clean end, errTorn if the
// last write did not reach the disk whole, and ErrCorrupt if bytes that were once safe have
// changed.
func (f *frameReader) next() ([]byte, error) {
	left := f.size - f.at
	switch {
	case left == 0:
		return nil, io.EOF
	case left < frameHead:
		return nil, errTorn
	}
	frame := make([]byte, frameHead)
	if _, err := io.ReadFull(f.r, frame); err != nil {
		return nil, err
	}
	before, n, err := parseFrameHead(frame)
	switch {
	case errors.Is(err, errTorn):
		return nil, f.hole(frame)
	case err != nil:
		return nil, err
	case before != f.sum:
		return nil, fmt.Errorf("%w: a frame that does not follow the one before it", ErrCorrupt)
	case frameSize(n) > left:
		return nil, errTorn
	}
	frame = append(frame, make([]byte, frameSize(n)-frameHead)...)
	if _, err := io.ReadFull(f.r, frame[frameHead:]); err != nil {
		return nil, err
	}
	payload, sum, err := parseFrame(frame)
	switch {
	case errors.Is(err, errTorn) && frameSize(n) < left:
		return nil, fmt.Errorf("%w: a frame of %d bytes has a hole", ErrCorrupt, n)
	case err != nil:
		return nil, err
	}
	f.at, f.sum, f.last = f.at+frameSize(n), sum, frame
	return payload, nil
}

// frameSize is the size of a frame with n bytes of entries.
func frameSize(n int64) int64 { return frameHead + nonzeroSize(n) + frameTail }

// parseFrameHead returns the sum before a frame and the length of its entries. The error is errTorn
// if the head has a hole.
func parseFrameHead(b []byte) (before logSum, n int64, err error) {
	head, whole := parseNonzero(b[:frameHead])
	switch {
	case !whole:
		return before, 0, errTorn
	case frameCheck(head) != binary.BigEndian.Uint32(head[sumSize+4:]):
		return before, 0, fmt.Errorf("%w: a length is wrong", ErrCorrupt)
	}
	return logSum(head[:sumSize]), int64(binary.BigEndian.Uint32(head[sumSize:])), nil
}

// parseFrame returns the entries and the sum of a frame whose head is good. The error is errTorn if
// the frame has a hole.
func parseFrame(b []byte) (payload []byte, sum logSum, err error) {
	head, _ := parseNonzero(b[:frameHead])
	payload, whole := parseNonzero(b[frameHead : len(b)-frameTail])
	want, tail := parseNonzero(b[len(b)-frameTail:])
	if !whole || !tail {
		return nil, logSum{}, errTorn
	}
	if sum = sumOf(head, payload); sum != logSum(want) {
		return nil, logSum{}, fmt.Errorf("%w: checksum of %d bytes is wrong", ErrCorrupt, len(payload))
	}
	return payload, sum, nil
}

// hole tells a frame whose head never arrived from one that was lost later. A frame that was lost
// later has a frame behind it, because only a synced frame gets a successor.
func (f *frameReader) hole(head []byte) error {
	rest, err := io.ReadAll(io.LimitReader(f.r, f.size-f.at-int64(len(head))))
	if err != nil {
		return err
	}
	for at := 0; at+frameHead <= len(rest); at++ {
		_, n, err := parseFrameHead(rest[at:])
		if err != nil || frameSize(n) > int64(len(rest)-at) {
			continue
		}
		if _, _, err := parseFrame(rest[at : at+int(frameSize(n))]); err == nil {
			return fmt.Errorf("%w: a hole, and %d bytes on a frame that was written later", ErrCorrupt,
				len(head)+at)
		}
	}
	return errTorn
}
