package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// incoming is the part of a store that knows the incoming state. Its file has a temporary name
// until it is whole, so a process that starts removes what another one has left of it.
type incoming struct {
	folder *folder
	states *states
	mu     struct {
		sync.Mutex
		kept *Partial // what a fetch has left that came to no end; its file is closed
	}
}

// detach returns what is kept, which is the caller's then; nil: nothing.
func (in *incoming) detach() *Partial {
	in.mu.Lock()
	defer in.mu.Unlock()
	p := in.mu.kept
	in.mu.kept = nil
	return p
}

// removeUnused removes what is kept.
func (in *incoming) removeUnused() error {
	if p := in.detach(); p != nil {
		return in.folder.remove(filepath.Base(p.file.Name()))
	}
	return nil
}

// begun tells whether a part of this state is kept.
func (in *incoming) begun(c Checkpoint) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.kept != nil && in.mu.kept.Height == c.Height && in.mu.kept.Root == c.Root
}

func (in *incoming) create(c Checkpoint) (*Partial, error) {
	if p := in.detach(); p != nil {
		if f, err := in.folder.fs.OpenFile(p.file.Name(), os.O_RDWR); err == nil && p.Checkpoint == c {
			p.file = f
			return p, nil
		} else if err == nil {
			_ = f.Close()
		}
		if err := in.folder.remove(filepath.Base(p.file.Name())); err != nil {
			return nil, err
		}
	}
	f, err := in.folder.temp(c.name())
	if err != nil {
		return nil, err
	}
	p := &Partial{Written: Written{Checkpoint: c, states: in.states, file: f}, in: in}
	p.mu.have = map[int64]int64{}
	if err := f.Truncate(c.Size); err != nil {
		p.Drop()
		return nil, in.folder.explain(c.name(), err)
	}
	return p, nil
}

// Partial is an incoming state. Its pieces are written in any order. It must end with Adopt, Keep
// or Drop.
type Partial struct {
	Written // without a tree
	in      *incoming
	mu      struct {
		sync.Mutex
		have map[int64]int64 // bytes of the pieces that were written, by offset
	}
}

// Has tells whether a piece was written.
func (p *Partial) Has(offset, length int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return length > 0 && p.mu.have[offset] == length
}

// WriteAt writes a piece that the caller has verified against the root. Calls may overlap in time,
// but not in their ranges.
func (p *Partial) WriteAt(b []byte, off int64) (int, error) {
	n, err := p.file.WriteAt(b, off)
	if err != nil {
		return n, p.in.folder.explain(p.name(), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.have[off] = int64(n)
	return n, nil
}

// Adopt makes the complete file a checkpoint, durably. Load verifies it once more, like any other.
// On an error the file is gone.
func (p *Partial) Adopt() (Checkpoint, error) {
	err := p.checkHeader()
	if err == nil {
		err = p.Publish()
	} else {
		p.Drop()
	}
	return p.Checkpoint, err
}

func (p *Partial) checkHeader() error {
	count, err := p.states.readHeader(p.file)
	if err == nil && count.Slot != p.Slot {
		err = fmt.Errorf("checkpoint: the state %s is the one of slot %d, not %d", p.Root, count.Slot, p.Slot)
	}
	p.Open = count.Open
	return err
}

// Keep leaves the file for a later Create of the same state, in this process.
func (p *Partial) Keep() {
	_ = p.file.Close()
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.in.mu.kept = p
}
