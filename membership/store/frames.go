package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

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
