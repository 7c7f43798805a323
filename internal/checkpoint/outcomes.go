package checkpoint

import (
	"fmt"
	"io"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The file of an outcome is a message (length u32, outcomeMagic | frame bytes u32 | count u32 |
// count x (segment, size u64)), then for each segment the hashes of its frames and its bytes.
// Height and outcome root are in the name of the file. With the hashes a segment can be served, and
// any frame checked, without reading all of it.
const (
	outcomeMagic     = "p2pdiloco/outcome-file/1"
	maxOutcomeHeader = 1 << 20
	maxSegmentBytes  = 1 << 42
	segmentMin       = 16 + 4 + 32 + 8 // bytes that a segment takes in the header, at least
)

// outcomeFile describes one file of segments.
type outcomeFile struct {
	name       string
	height     uint64
	root       slot.Root // slot.OutcomeRoot
	frameBytes int
	segments   []slot.Segment
	sizes      []int64 // bytes of each segment
	offsets    []int64 // where each segment's frame hashes begin; its bytes follow
	end        int64   // size of the file
}

func (o *outcomeFile) frames(i int) int64 {
	return (o.sizes[i] + int64(o.frameBytes) - 1) / int64(o.frameBytes)
}

func (o *outcomeFile) appendHeader(b []byte) []byte {
	b = append(b, outcomeMagic...)
	b = wire.AppendU32(wire.AppendU32(b, uint32(o.frameBytes)), uint32(len(o.segments)))
	for i, g := range o.segments {
		b = wire.AppendU64(g.Append(b), uint64(o.sizes[i]))
	}
	return b
}

// parseOutcome parses what appendHeader wrote. Name and height are not in it.
func parseOutcome(b []byte) (*outcomeFile, error) {
	r := wire.NewReader(b)
	if m := r.Take(len(outcomeMagic)); string(m) != outcomeMagic {
		r.Fail("no outcome file")
	}
	o := &outcomeFile{frameBytes: int(r.U32())}
	if o.frameBytes <= 0 {
		r.Fail("frames of %d bytes", o.frameBytes)
	}
	for range r.Count(slot.MaxSegments, segmentMin) {
		o.segments = append(o.segments, slot.ReadSegment(r))
		size := r.U64()
		if size > maxSegmentBytes {
			r.Fail("segment of %d bytes", size)
		}
		o.sizes = append(o.sizes, int64(size))
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	o.root = slot.OutcomeRoot(o.segments)
	o.place(4 + int64(len(b)))
	return o, nil
}

// place computes where the segments lie behind a header that ends at the offset.
func (o *outcomeFile) place(at int64) {
	for i, size := range o.sizes {
		o.offsets = append(o.offsets, at)
		at += o.frames(i)*int64(len(slot.Root{})) + size
	}
	o.end = at
}

func (o *outcomeFile) writeSegment(w io.Writer, i int, data slot.Frames) error {
	if got := data.Root(o.frameBytes); got != o.segments[i].Root {
		return fmt.Errorf("segment %d has root %s, not %s as the outcome says", i, got.Short(),
			o.segments[i].Root.Short())
	}
	if _, err := w.Write(slot.AppendRoots(nil, data.Hashes)); err != nil {
		return err
	}
	_, err := w.Write(data.Bytes)
	return err
}

// outcomes is the part of a store that keeps outcomes.
type outcomes struct {
	catalog[*outcomeFile]
	folder     *folder
	frameBytes int
	requests   *requests
	setter     setter
}

// segmentAt is the place of a segment.
type segmentAt struct {
	file  *outcomeFile
	index int
}

// find finds a segment in any of the outcomes.
func (s *outcomes) find(root slot.Root) (segmentAt, bool) {
	for _, o := range s.all() {
		if i := slices.IndexFunc(o.segments, func(g slot.Segment) bool { return g.Root == root }); i >= 0 {
			return segmentAt{o, i}, true
		}
	}
	return segmentAt{}, false
}

// put writes an outcome that is not held yet.
func (s *outcomes) put(o *outcomeFile, data []slot.Frames) error {
	for i := range o.segments {
		o.sizes = append(o.sizes, int64(len(data[i].Bytes)))
	}
	header := o.appendHeader(nil)
	o.place(4 + int64(len(header)))
	f, err := s.folder.write(o.name, o.end, func(w io.Writer) error {
		if err := wire.WriteMessage(w, header); err != nil {
			return err
		}
		for i := range o.segments {
			if i == len(o.segments)/2 {
				failpoint.Here(failpoint.OutcomeHalf)
			}
			if err := o.writeSegment(w, i, data[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = s.folder.publish(f, o.name)
	}
	if err == nil {
		s.add(o.name, o)
	}
	return err
}

// setAside takes a corrupt file out of the store.
func (s *outcomes) setAside(o *outcomeFile, why *CorruptError) {
	setAside(&s.setter, &s.catalog, s.folder, o.name, func(now *outcomeFile) bool { return now == o }, why)
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
	header, err := wire.ReadMessage(f, maxOutcomeHeader)
	if err != nil {
		return &CorruptError{Path: f.Name(), Why: err.Error()}
	}
	o, err := parseOutcome(header)
	switch {
	case err != nil:
		return &CorruptError{Path: f.Name(), Why: err.Error()}
	case o.root != root:
		return &CorruptError{Path: f.Name(), Why: fmt.Sprintf("its segments make the outcome %s", o.root)}
	case o.end != info.Size():
		return &CorruptError{Path: f.Name(), Why: fmt.Sprintf("%d bytes where %d are due", info.Size(), o.end)}
	case o.frameBytes != s.frameBytes:
		return &CorruptError{Path: f.Name(), Why: fmt.Sprintf("frames of %d bytes where this run has %d", o.frameBytes,
			s.frameBytes)}
	}
	o.name, o.height = name, height
	s.add(o.name, o)
	return nil
}
