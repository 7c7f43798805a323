package checkpoint

import (
	"fmt"
	"io"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// An outcome's file: a message (length u32, outcomeMagic | frame bytes u32 | count u32 | count x (segment, size u64)), then for
// each segment the hashes of its frames and its bytes. The file's name holds height and outcome root. The hashes are there so
// that a segment can be served, and any frame checked, without reading all of it.
const (
	outcomeMagic     = "p2pdiloco/outcome-file/1"
	maxOutcomeHeader = 1 << 20
	maxSegmentBytes  = 1 << 42
	segmentMin       = 16 + 4 + 32 + 8 // bytes that a segment takes in the header, at least
)

// outcomeFile is what is known of one file of segments.
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

type segmentAt struct {
	file  *outcomeFile
	index int
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

// parseOutcome reads what appendHeader wrote. Neither name, height nor root are in it.
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

// PutOutcome makes the outcome of a step at this height durable: all bytes of all its segments. It asks data for each
// segment's bytes twice, and refuses bytes that do not have the segment's root. Several outcomes of one height may be held
// (those of several ballots). Putting what is held already does nothing.
func (s *Store) PutOutcome(height uint64, segments []slot.Segment, data func(i int) []byte) error {
	o := &outcomeFile{height: height, root: slot.OutcomeRoot(segments), frameBytes: s.cfg.FrameBytes, segments: segments}
	o.name = fileName(outcomePrefix, height, o.root)
	if s.outcome(o.name) != nil {
		return nil
	}
	for i := range segments {
		o.sizes = append(o.sizes, int64(len(data(i))))
	}
	header := o.appendHeader(nil)
	o.place(4 + int64(len(header)))
	err := s.writeFile(o.name, func(w io.Writer) error {
		if err := wire.WriteMessage(w, header); err != nil {
			return err
		}
		for i := range segments {
			if err := o.writeSegment(w, i, data(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.outcomes[o.name] = o
	s.reindexLocked()
	return nil
}

func (o *outcomeFile) writeSegment(w io.Writer, i int, data []byte) error {
	hashes := slot.FrameHashes(data, o.frameBytes)
	if got := slot.FrameRoot(hashes, o.frameBytes, uint64(len(data))); got != o.segments[i].Root {
		return fmt.Errorf("segment %d has root %s, not %s as the outcome says", i, got.Short(), o.segments[i].Root.Short())
	}
	b := make([]byte, 0, len(hashes)*len(slot.Root{}))
	for _, h := range hashes {
		b = append(b, h[:]...)
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func (s *Store) outcome(name string) *outcomeFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.outcomes[name]
}

// scanOutcome takes a file that Open found into the store.
func (s *Store) scanOutcome(name string, height uint64, root slot.Root) error {
	f, err := s.open(name)
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
		return &CorruptError{f.Name(), err.Error()}
	}
	o, err := parseOutcome(header)
	switch {
	case err != nil:
		return &CorruptError{f.Name(), err.Error()}
	case o.root != root:
		return &CorruptError{f.Name(), fmt.Sprintf("its segments make the outcome %s", o.root)}
	case o.end != info.Size():
		return &CorruptError{f.Name(), fmt.Sprintf("%d bytes where %d are due", info.Size(), o.end)}
	case o.frameBytes != s.cfg.FrameBytes:
		return &CorruptError{f.Name(), fmt.Sprintf("frames of %d bytes where this run has %d", o.frameBytes, s.cfg.FrameBytes)}
	}
	o.name, o.height = name, height
	s.mu.outcomes[name] = o
	return nil
}

func (s *Store) reindex() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reindexLocked()
}

func (s *Store) reindexLocked() {
	s.mu.segments = map[slot.Root]segmentAt{}
	for _, o := range s.mu.outcomes {
		for i, g := range o.segments {
			s.mu.segments[g.Root] = segmentAt{o, i}
		}
	}
}
