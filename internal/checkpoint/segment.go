package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Read reads segment i and verifies it against the segment's root. After a *CorruptError the
// outcome is no longer held: fetch it again and put it back.
func (o *Outcome) Read(i int) ([]byte, error) {
	r, err := o.in.open(segmentAt{o, i})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	dst := make([]byte, o.sizes[i])
	if _, err := r.f.ReadAt(dst, r.dataAt()); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("checkpoint: %s: %w", r.f.Name(), err)
	}
	got := slot.Cut(dst, o.frameBytes).Root(o.frameBytes)
	if want := o.Segments[i].Root; got != want {
		if o.in.folder.reused(o.name) {
			return nil, fmt.Errorf("checkpoint: segment of height %d: %w", o.Height, ErrNotHeld)
		}
		return nil, r.rotten("segment %d has root %s, not %s", i, got.Short(), want.Short())
	}
	return dst, nil
}

// segment opens a segment; lent: for another peer, so that Prune spares it for some time.
func (s *outcomes) segment(root slot.Root, lent bool) (*SegmentReader, error) {
	at, ok := s.find(root)
	if !ok {
		return nil, fmt.Errorf("checkpoint: segment %s: %w", root.Short(), ErrNotHeld)
	}
	if lent {
		s.requests.note(at.file.name)
	}
	return s.open(at)
}

func (s *outcomes) open(at segmentAt) (*SegmentReader, error) {
	f, err := s.folder.open(at.file.name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // pruned since, or somebody has removed it
			s.forget(at.file.name)
			err = ErrNotHeld
		}
		return nil, fmt.Errorf("checkpoint: segment of height %d: %w", at.file.Height, err)
	}
	return &SegmentReader{f, at}, nil
}

// SegmentReader reads the frames of one segment, for peers that fetch it.
type SegmentReader struct {
	f  disk.File
	at segmentAt
}

// Size is the number of bytes of the segment.
func (r *SegmentReader) Size() int64 { return r.at.file.sizes[r.at.index] }

// Frames is the number of its frames.
func (r *SegmentReader) Frames() int64 { return r.at.file.frames(r.at.index) }

func (r *SegmentReader) dataAt() int64 { return r.at.file.dataAt[r.at.index] }

// Hashes reads the hashes of all frames and verifies them against the segment's root.
func (r *SegmentReader) Hashes() ([]slot.Root, error) {
	b := make([]byte, r.Frames()*int64(len(slot.Root{})))
	if _, err := r.f.ReadAt(b, r.at.file.hashesAt[r.at.index]); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", r.f.Name(), err)
	}
	hashes, o := slot.ParseRoots(b), r.at.file
	if slot.FrameRoot(hashes, o.frameBytes, uint64(r.Size())) != o.Segments[r.at.index].Root {
		return nil, r.rotten("the frame hashes of segment %d are not those of its root", r.at.index)
	}
	return hashes, nil
}

// Frame appends frame k to dst, verified against its hash from Hashes, so that no rotten bytes are
// sent to anybody.
func (r *SegmentReader) Frame(dst []byte, k int64, hashes []slot.Root) ([]byte, error) {
	fb := int64(r.at.file.frameBytes)
	if k < 0 || k >= r.Frames() {
		return dst, fmt.Errorf("checkpoint: frame %d of %d", k, r.Frames())
	}
	n := len(dst)
	size := int(min(fb, r.Size()-k*fb))
	dst = slices.Grow(dst, size)[:n+size]
	if _, err := r.f.ReadAt(dst[n:], r.dataAt()+k*fb); err != nil {
		return dst[:n], err
	}
	if slot.Hash(dst[n:]) != hashes[k] {
		return dst[:n], r.rotten("frame %d of segment %d does not have its hash", k, r.at.index)
	}
	return dst, nil
}

// ReadAt reads bytes of the segment as they are on disk, unlike Frame, which verifies them.
func (r *SegmentReader) ReadAt(dst []byte, at int64) (int, error) {
	return io.NewSectionReader(r.f, r.dataAt(), r.Size()).ReadAt(dst, at)
}

// rotten sets the outcome's file aside.
func (r *SegmentReader) rotten(why string, args ...any) error {
	o, err := r.at.file, corrupt(r.f, why, args...)
	o.in.setAside(o.name, o, err)
	return err
}

// Close closes the file.
func (r *SegmentReader) Close() error { return r.f.Close() }
