package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A state on its way in is a file that outlives its process, beside a journal of the pieces written to it: for each, offset u64 |
// bytes u32 | hash. Neither is synced while pieces come. Who takes the file up again reads each piece and believes it only if it has
// the hash, so a piece that was lost in a power cut, or has rotted, is fetched again and nothing else is.
const (
	partialPrefix = "partial"
	journalSuffix = ".pieces"
	journalEntry  = 8 + 4 + len(slot.Root{})
)

// Partial is a state on its way in, written in any order. It must end with Adopt, Keep or Discard.
type Partial struct {
	s    *Store
	f    disk.File
	c    Checkpoint
	have map[int64]int64 // bytes of the pieces that were there already, by offset

	journal struct {
		sync.Mutex
		disk.File
		end int64
	}
}

// Create starts a file for the state that c describes, or takes up the one that was begun; its size is the shape's. Files begun for
// other states are removed: one at a time is fetched.
func (s *Store) Create(c Checkpoint) (*Partial, error) {
	c.Size = s.cfg.Shape.Size()
	p := &Partial{s: s, c: c, have: map[int64]int64{}}
	name := fileName(partialPrefix, c.Height, c.Root)
	if err := s.removePartials(name); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, name)
	err := p.open(path)
	if err == nil {
		err = p.resume()
	}
	if err != nil {
		p.close()
		return nil, s.diskError(name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.partial = name
	return p, nil
}

func (p *Partial) open(path string) (err error) {
	if p.f, err = p.s.fs.OpenFile(path, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if p.journal.File, err = p.s.fs.OpenFile(path+journalSuffix, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	info, err := p.f.Stat()
	if err != nil || info.Size() == p.c.Size {
		return err
	}
	if err := p.journal.Truncate(0); err != nil { // a new file, or not one of this run
		return err
	}
	return p.f.Truncate(p.c.Size)
}

// resume finds out which of the journal's pieces are there. What the journal says wrong only costs their being fetched.
func (p *Partial) resume() error {
	most := (p.c.Size/GroupBytes + 2) * int64(journalEntry)
	b, err := disk.Read(p.s.fs, p.journal.Name(), most)
	if err != nil {
		return p.journal.Truncate(0) // more pieces than there can be
	}
	var whole []byte
	var buf []byte
	for ; len(b) >= journalEntry; b = b[journalEntry:] {
		r := wire.NewReader(b[:journalEntry])
		offset, n := int64(r.U64()), int64(r.U32())
		if checkRange(p.c.Size, offset, n) != nil || p.have[offset] != 0 {
			continue
		}
		buf = append(buf[:0], make([]byte, n)...)
		if _, err := p.f.ReadAt(buf, offset); err != nil {
			return err
		}
		if hash := slot.Hash(buf); string(hash[:]) == string(b[12:journalEntry]) {
			p.have[offset] = n
			whole = append(whole, b[:journalEntry]...)
		}
	}
	if err := p.journal.Truncate(0); err != nil { // without what was torn or wrong
		return err
	}
	return p.note(whole)
}

// Has says whether a piece was there when the file was taken up again.
func (p *Partial) Has(offset, length int64) bool { return length > 0 && p.have[offset] == length }

// WriteAt writes a piece that the caller has verified against the root. Calls may overlap in time, not in their ranges.
func (p *Partial) WriteAt(b []byte, off int64) (int, error) {
	n, err := p.f.WriteAt(b, off)
	if err != nil {
		return n, p.s.diskError(p.c.name(), err)
	}
	hash := slot.Hash(b)
	e := wire.AppendU32(wire.AppendU64(make([]byte, 0, journalEntry), uint64(off)), uint32(len(b)))
	p.journal.Lock()
	defer p.journal.Unlock()
	if err := p.note(append(e, hash[:]...)); err != nil {
		return n, p.s.diskError(p.c.name(), err)
	}
	return n, nil
}

// note appends to the journal, which is locked or not yet shared.
func (p *Partial) note(b []byte) error {
	n, err := p.journal.WriteAt(b, p.journal.end)
	p.journal.end += int64(n)
	return err
}

// Adopt makes the complete file a checkpoint, durably. Load verifies it once more, like any other. On an error the file is gone.
func (p *Partial) Adopt() (Checkpoint, error) {
	if err := p.checkHeader(); err != nil {
		p.Discard()
		return Checkpoint{}, err
	}
	if err := p.s.publish(p.f, p.c.name()); err != nil {
		p.Discard()
		return Checkpoint{}, err
	}
	p.s.add(p.c, nil)
	p.close()
	return p.c, p.s.remove(filepath.Base(p.journal.Name()))
}

func (p *Partial) checkHeader() error {
	slotNumber, err := p.s.readHeader(p.f)
	if err == nil && slotNumber != p.c.Slot {
		err = fmt.Errorf("checkpoint: the state %s is the one of slot %d, not %d", p.c.Root, slotNumber, p.c.Slot)
	}
	return err
}

// Keep leaves the file for a later Create of the same state.
func (p *Partial) Keep() { p.close() }

// Discard gives the file up.
func (p *Partial) Discard() {
	p.close()
	_ = p.s.fs.Remove(p.f.Name())
	_ = p.s.fs.Remove(p.journal.Name())
}

func (p *Partial) close() {
	if p.f != nil {
		_ = p.f.Close()
	}
	if p.journal.File != nil {
		_ = p.journal.Close()
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.mu.partial = ""
}

// Begun says whether a file for this state was begun and kept.
func (s *Store) Begun(c Checkpoint) bool {
	f, err := s.open(fileName(partialPrefix, c.Height, c.Root) + journalSuffix)
	return err == nil && f.Close() == nil
}

// removePartials removes the files of states on their way in, but for the one named.
func (s *Store) removePartials(but string) error {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), journalSuffix)
		if kind, _, _, ok := parseFileName(name); !ok || kind != partialPrefix || name == but {
			continue
		}
		if err := s.remove(e.Name()); err != nil {
			return err
		}
	}
	return nil
}
