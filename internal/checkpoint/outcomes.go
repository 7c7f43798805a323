package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The file of an outcome is the bytes of its segments, then the hashes of their frames, the header
// (outcomeMagic | frame bytes u32 | count u32 | count x (segment, size u64)) and its length u32.
// Height and outcome root are in the name of the file. With the hashes a segment can be served, and
// any frame checked, without reading all of it. As the bytes come first and have no gaps, a frame
// has its place before it is known how the outcome is divided (Begun).
const (
	outcomeMagic     = "p2pdiloco/outcome-file/2"
	maxOutcomeHeader = 1 << 20
	maxSegmentBytes  = 1 << 42
	segmentMin       = 16 + 4 + 32 + 8 // bytes that a segment takes in the header, at least
)

// Outcome is the outcome of one step on disk. Segments must not be changed.
type Outcome struct {
	Height   uint64
	Root     slot.Root // slot.OutcomeRoot
	Segments []slot.Segment

	in         *outcomes
	name       string
	frameBytes int
	sizes      []int64 // bytes of each segment
	dataAt     []int64 // where the bytes of each segment begin
	hashesAt   []int64 // where the hashes of its frames do
	headerAt   int64
	end        int64 // size of the file
}

func (o *Outcome) frames(i int) int64 {
	return (o.sizes[i] + int64(o.frameBytes) - 1) / int64(o.frameBytes)
}

func (o *Outcome) appendHeader(b []byte) []byte {
	b = append(b, outcomeMagic...)
	b = wire.AppendU32(wire.AppendU32(b, uint32(o.frameBytes)), uint32(len(o.Segments)))
	for i, g := range o.Segments {
		b = wire.AppendU64(g.Append(b), uint64(o.sizes[i]))
	}
	return b
}

// parseOutcome parses what appendHeader wrote. Name and height are not in it.
func parseOutcome(b []byte) (*Outcome, error) {
	r := wire.NewReader(b)
	if m := r.Take(len(outcomeMagic)); string(m) != outcomeMagic {
		r.Fail("no outcome file")
	}
	o := &Outcome{frameBytes: int(r.U32())}
	if o.frameBytes <= 0 {
		r.Fail("frames of %d bytes", o.frameBytes)
	}
	for range r.Count(slot.MaxSegments, segmentMin) {
		o.Segments = append(o.Segments, slot.ReadSegment(r))
		size := r.U64()
		if size > maxSegmentBytes {
			r.Fail("segment of %d bytes", size)
		}
		o.sizes = append(o.sizes, int64(size))
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	o.Root = slot.OutcomeRoot(o.Segments)
	o.place(len(b))
	return o, nil
}

// readOutcome reads the header of a file of this size.
func readOutcome(f io.ReaderAt, size int64) (*Outcome, error) {
	var length [4]byte
	if _, err := f.ReadAt(length[:], max(0, size-4)); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if n > min(maxOutcomeHeader, size-4) {
		return nil, fmt.Errorf("a header of %d bytes", n)
	}
	header := make([]byte, n)
	if _, err := f.ReadAt(header, size-4-n); err != nil {
		return nil, err
	}
	return parseOutcome(header)
}

// place computes where all lies in the file, given the length of the header.
func (o *Outcome) place(header int) {
	at := int64(0)
	for _, size := range o.sizes {
		o.dataAt = append(o.dataAt, at)
		at += size
	}
	for i := range o.sizes {
		o.hashesAt = append(o.hashesAt, at)
		at += o.frames(i) * int64(len(slot.Root{}))
	}
	o.headerAt, o.end = at, at+int64(header)+4
}

// write writes all but the frames that were written before, of which these are the hashes by their
// places.
func (o *Outcome) write(f io.WriterAt, header []byte, data []slot.Frames, written map[int64]slot.Root) error {
	for i := range o.Segments {
		if i == len(o.Segments)/2 {
			failpoint.Here(failpoint.OutcomeHalf)
		}
		if err := o.writeSegment(f, i, data[i], written); err != nil {
			return err
		}
	}
	_, err := f.WriteAt(wire.AppendU32(header, uint32(len(header))), o.headerAt)
	return err
}

func (o *Outcome) writeSegment(f io.WriterAt, i int, data slot.Frames, written map[int64]slot.Root) error {
	if got := data.Root(o.frameBytes); got != o.Segments[i].Root {
		return fmt.Errorf("segment %d has root %s, not %s as the outcome says", i, got.Short(),
			o.Segments[i].Root.Short())
	}
	place := func(k int) int64 { return min(int64(k)*int64(o.frameBytes), o.sizes[i]) }
	for k, n := 0, len(data.Hashes); k < n; k++ {
		first := k
		for k < n && written[o.dataAt[i]+place(k)] != data.Hashes[k] {
			k++
		}
		if first == k {
			continue
		}
		if _, err := f.WriteAt(data.Bytes[place(first):place(k)], o.dataAt[i]+place(first)); err != nil {
			return err
		}
	}
	_, err := f.WriteAt(slot.AppendRoots(nil, data.Hashes), o.hashesAt[i])
	return err
}

// outcomes is the part of a store that keeps outcomes.
type outcomes struct {
	catalog[*Outcome]
	frameBytes int
	requests   *requests
	begun      atomic.Pointer[Begun] // the newest
}

// segmentAt is the place of a segment.
type segmentAt struct {
	file  *Outcome
	index int
}

// find finds a segment in any of the outcomes.
func (s *outcomes) find(root slot.Root) (segmentAt, bool) {
	for _, o := range s.all() {
		if i := slices.IndexFunc(o.Segments, func(g slot.Segment) bool { return g.Root == root }); i >= 0 {
			return segmentAt{o, i}, true
		}
	}
	return segmentAt{}, false
}

// put writes an outcome that is not held yet.
func (s *outcomes) put(o *Outcome, data []slot.Frames) error {
	for i := range o.Segments {
		o.sizes = append(o.sizes, int64(len(data[i].Bytes)))
	}
	header := o.appendHeader(nil)
	o.place(len(header))
	err := s.write(o, header, data)
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed the folder, and in it what was begun
		err = s.write(o, header, data)
	}
	if err == nil {
		s.add(o.name, o)
	}
	return err
}

// write writes an outcome to the file that was begun for its height, or else to another one.
func (s *outcomes) write(o *Outcome, header []byte, data []slot.Frames) (err error) {
	f, written := s.begunFor(o.Height).detach()
	if f == nil {
		if f, err = s.folder.begin(o.name); err != nil {
			return err
		}
	}
	err = s.folder.fill(f, o.name, o.end, func() error { return o.write(f, header, data, written) })
	if err != nil {
		return err
	}
	return s.folder.publish(f, o.name)
}

// scan takes a file that is in the directory into the list.
func (s *outcomes) scan(name string, height uint64, root slot.Root) error {
	f, err := s.folder.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	o, err := readOutcome(f, info.Size())
	switch {
	case err != nil:
		return corrupt(f, "%v", err)
	case o.Root != root:
		return corrupt(f, "its segments make the outcome %s", o.Root)
	case o.end != info.Size():
		return corrupt(f, "%d bytes where %d are due", info.Size(), o.end)
	case o.frameBytes != s.frameBytes:
		return corrupt(f, "frames of %d bytes where this run has %d", o.frameBytes, s.frameBytes)
	}
	o.in, o.name, o.Height = s, name, height
	s.add(o.name, o)
	return nil
}
