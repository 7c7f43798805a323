package checkpoint

import (
	"fmt"
	"io"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// outcomes is the part of a store that keeps outcomes.
type outcomes struct {
	folder     *folder
	frameBytes int
	requests   *requests

	mu struct {
		sync.Mutex
		held     map[string]*outcomeFile // by file name
		segments map[slot.Root]segmentAt // of all of them
	}
}

// segmentAt is the place of a segment.
type segmentAt struct {
	file  *outcomeFile
	index int
}

func newOutcomes(folder *folder, frameBytes int, requests *requests) *outcomes {
	s := &outcomes{folder: folder, frameBytes: frameBytes, requests: requests}
	s.mu.held, s.mu.segments = map[string]*outcomeFile{}, map[slot.Root]segmentAt{}
	return s
}

// put writes an outcome that is not held yet.
func (s *outcomes) put(o *outcomeFile, data func(i int) []byte) error {
	for i := range o.segments {
		o.sizes = append(o.sizes, int64(len(data(i))))
	}
	header := o.appendHeader(nil)
	o.place(4 + int64(len(header)))
	err := s.folder.write(o.name, func(w io.Writer) error {
		if err := wire.WriteMessage(w, header); err != nil {
			return err
		}
		for i := range o.segments {
			if err := o.writeSegment(w, i, data(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.add(o)
	}
	return err
}

func (s *outcomes) named(name string) *outcomeFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.held[name]
}

func (s *outcomes) list() []*outcomeFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := make([]*outcomeFile, 0, len(s.mu.held))
	for _, o := range s.mu.held {
		files = append(files, o)
	}
	return files
}

func (s *outcomes) add(o *outcomeFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held[o.name] = o
	for i, g := range o.segments {
		s.mu.segments[g.Root] = segmentAt{o, i}
	}
}

func (s *outcomes) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.held[name] == nil {
		return
	}
	delete(s.mu.held, name)
	clear(s.mu.segments) // another outcome may have a segment with the same root
	for _, o := range s.mu.held {
		for i, g := range o.segments {
			s.mu.segments[g.Root] = segmentAt{o, i}
		}
	}
}

// setAside takes a corrupt file out of the store.
func (s *outcomes) setAside(name string, why *CorruptError) {
	s.folder.setAside(name, why)
	s.forget(name)
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
	case o.frameBytes != s.frameBytes:
		return &CorruptError{f.Name(), fmt.Sprintf("frames of %d bytes where this run has %d", o.frameBytes,
			s.frameBytes)}
	}
	o.name, o.height = name, height
	s.add(o)
	return nil
}
