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

// An incoming state is a file that outlives its process, beside a journal of the pieces that were
// written to it: offset u64 | bytes u32 | hash of each. Neither file is synced while pieces come. A
// process that takes the file up again reads each piece and believes it only if it has the hash. So
// a piece that was lost in a power cut, or has rotted, is fetched again, and no other piece is.
const (
	journalSuffix = ".pieces"
	journalEntry  = 8 + 4 + len(slot.Root{})
)

// incoming is the part of a store that knows the incoming state.
type incoming struct {
	folder *folder
	states *states
	// held while a file is opened for an incoming state, and while such files are removed
	files sync.Mutex
	mu    struct {
		sync.Mutex
		open string // the name of its file, while it is open
	}
}

// removeAll removes the files of incoming states, without the one named.
func (in *incoming) removeAll(but string) error {
	names, err := in.folder.names()
	if err != nil {
		return err
	}
	for _, file := range names {
		name := strings.TrimSuffix(file, journalSuffix)
		if kind, _, _, ok := parseFileName(name); !ok || kind != partialPrefix || name == but {
			continue
		}
		if err := in.folder.remove(file); err != nil {
			return err
		}
	}
	return nil
}

// removeUnused removes the files of incoming states that nobody writes.
func (in *incoming) removeUnused() error {
	in.files.Lock()
	defer in.files.Unlock()
	in.mu.Lock()
	open := in.mu.open
	in.mu.Unlock()
	return in.removeAll(open)
}

func (in *incoming) setOpen(name string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.open = name
}

// begun tells whether a file for this state was begun and kept.
func (in *incoming) begun(c Checkpoint) bool {
	f, err := in.folder.open(fileName(partialPrefix, c.Height, c.Root) + journalSuffix)
	return err == nil && f.Close() == nil
}

func (in *incoming) create(c Checkpoint) (*Partial, error) {
	p := &Partial{in: in, c: c, have: map[int64]int64{}}
	name := fileName(partialPrefix, c.Height, c.Root)
	err := in.begin(p, name)
	if err == nil {
		err = p.resume()
	}
	if err != nil {
		p.close()
		return nil, in.folder.explain(name, err)
	}
	return p, nil
}

// begin opens the file of an incoming state, which nobody removes from then on, and removes others.
func (in *incoming) begin(p *Partial, name string) error {
	in.files.Lock()
	defer in.files.Unlock()
	in.setOpen(name)
	if err := in.removeAll(name); err != nil {
		return err
	}
	return p.open(in.folder.path(name))
}

// Partial is an incoming state. Its pieces are written in any order. It must end with Adopt, Keep
// or Discard.
type Partial struct {
	in   *incoming
	f    disk.File
	c    Checkpoint
	have map[int64]int64 // bytes of the pieces that were there already, by offset

	journal struct {
		sync.Mutex
		disk.File
		end int64
	}
}

func (p *Partial) open(path string) (err error) {
	if p.f, err = p.in.folder.fs.OpenFile(path, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if p.journal.File, err = p.in.folder.fs.OpenFile(path+journalSuffix, os.O_RDWR|os.O_CREATE); err != nil {
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

// resume finds out which pieces of the journal are there. A piece that the journal has wrong is
// fetched again.
func (p *Partial) resume() error {
	most := (p.c.Size/GroupBytes + 2) * int64(journalEntry)
	b, err := disk.Read(p.in.folder.fs, p.journal.Name(), most)
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

// Has tells whether a piece was there when the file was taken up again.
func (p *Partial) Has(offset, length int64) bool { return length > 0 && p.have[offset] == length }

// WriteAt writes a piece that the caller has verified against the root. Calls may overlap in time,
// but not in their ranges.
func (p *Partial) WriteAt(b []byte, off int64) (int, error) {
	n, err := p.f.WriteAt(b, off)
	if err != nil {
		return n, p.in.folder.explain(p.c.name(), err)
	}
	hash := slot.Hash(b)
	e := wire.AppendU32(wire.AppendU64(make([]byte, 0, journalEntry), uint64(off)), uint32(len(b)))
	p.journal.Lock()
	defer p.journal.Unlock()
	if err := p.note(append(e, hash[:]...)); err != nil {
		return n, p.in.folder.explain(p.c.name(), err)
	}
	return n, nil
}

// note appends to the journal, which is locked or not shared yet.
func (p *Partial) note(b []byte) error {
	n, err := p.journal.WriteAt(b, p.journal.end)
	p.journal.end += int64(n)
	return err
}

// Adopt makes the complete file a checkpoint, durably. Load verifies it once more, like any other.
// On an error the file is gone.
func (p *Partial) Adopt() (Checkpoint, error) {
	if err := p.checkHeader(); err != nil {
		p.Discard()
		return Checkpoint{}, err
	}
	if err := p.in.folder.publish(p.f, p.c.name()); err != nil {
		p.Discard()
		return Checkpoint{}, err
	}
	p.in.states.keep(p.c, nil)
	p.close()
	return p.c, p.in.folder.remove(filepath.Base(p.journal.Name()))
}

func (p *Partial) checkHeader() error {
	slotNumber, err := p.in.states.readHeader(p.f)
	if err == nil && slotNumber != p.c.Slot {
		err = fmt.Errorf("checkpoint: the state %s is the one of slot %d, not %d", p.c.Root, slotNumber, p.c.Slot)
	}
	return err
}

// Keep leaves the file for a later Create of the same state.
func (p *Partial) Keep() { p.close() }

// Discard removes the file.
func (p *Partial) Discard() {
	p.close()
	_ = p.in.folder.fs.Remove(p.f.Name())
	_ = p.in.folder.fs.Remove(p.journal.Name())
}

func (p *Partial) close() {
	if p.f != nil {
		_ = p.f.Close()
	}
	if p.journal.File != nil {
		_ = p.journal.Close()
	}
	p.in.setOpen("")
}
