package checkpoint

import (
	"os"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Begun is the file of an outcome that is not agreed yet. Frames are written to it as they come, so
// that PutOutcome has little left to write and sync. It counts for nothing until then: a frame that
// has another hash in the end is written again, and a fault of the disk is met again.
type Begun struct {
	s    *outcomes
	name string
	mu   struct {
		sync.Mutex                     // held while bytes are written or synced: take waits
		file       disk.File           // nil once it was taken, or failed
		written    map[int64]slot.Root // hashes of frames, by their places in the file
	}
}

// BeginOutcome begins the file of the outcome of a height, which PutOutcome takes. One that was
// begun before and not taken goes on as this one.
func (s *Store) BeginOutcome(height uint64) (b *Begun, err error) {
	b = &Begun{s: s.outcomes, name: begunName(height)}
	b.mu.Lock()
	defer b.mu.Unlock()
	old := s.outcomes.begun.Swap(b)
	if b.mu.file, b.mu.written = old.detach(); b.mu.file == nil {
		b.mu.file, err = s.folder.begin(b.name)
	}
	if b.mu.written == nil || old.name != b.name { // frames of another height are other frames
		b.mu.written = map[int64]slot.Root{}
	}
	return b, err
}

// BegunOutcome is what was begun for the outcome of a height; nil: nothing.
func (s *Store) BegunOutcome(height uint64) *Begun { return s.outcomes.begunFor(height) }

func (s *outcomes) begunFor(height uint64) *Begun {
	if b := s.begun.Load(); b != nil && b.name == begunName(height) {
		return b
	}
	return nil
}

func begunName(height uint64) string { return fileName(outcomePrefix, height, slot.Root{}) }

// detach returns the file for somebody else to write; nil if there is none.
func (b *Begun) detach() (f disk.File, written map[int64]slot.Root) {
	if b == nil {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f, written = b.mu.file, b.mu.written
	b.mu.file, b.mu.written = nil, nil
	return f, written
}

// Write writes a frame, given its index in the whole outcome, to its place. After an error no more
// need be written: the outcome was put, or the disk has failed.
func (b *Begun) Write(index int, frame slot.Frames) error {
	return b.use(func(f disk.File) error {
		at := b.place(index)
		if _, err := f.WriteAt(frame.Bytes, at); err != nil {
			return err
		}
		b.mu.written[at] = frame.Hashes[0]
		return nil
	})
}

func (b *Begun) place(index int) int64 { return int64(index) * int64(b.s.frameBytes) }

// Has says whether a frame with this hash was written to its place. A nil Begun has none.
func (b *Begun) Has(index int, hash slot.Root) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.written[b.place(index)] == hash
}

// Sync has the disk take what was written so far.
func (b *Begun) Sync() error { return b.use(disk.File.Sync) }

func (b *Begun) use(do func(disk.File) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.file == nil {
		return os.ErrClosed
	}
	err := do(b.mu.file)
	if err != nil {
		err = b.s.folder.failed(b.mu.file, b.name, err)
		b.mu.file, b.mu.written = nil, nil
	}
	return err
}
