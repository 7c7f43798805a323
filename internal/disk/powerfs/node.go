package powerfs

import "maps"

// SectorBytes is how much of a file is written at once, or not.
const SectorBytes = 512

// node is a file or a directory, as the kernel has it and as the disk has it.
type node struct {
	// Of a file.
	cache []byte       // what is read
	disk  []byte       // what was synced
	dirty map[int]bool // sectors written since: what the next Sync writes
	gone  map[int]bool // sectors that a failed Sync dropped: nobody knows

	// Of a directory; names is nil for files.
	names   map[string]*node
	durable map[string]*node
	// changes of names since SyncDir, each whole or not at all; nil takes a name away
	pending []map[string]*node
}

func newDir() *node { return &node{names: map[string]*node{}, durable: map[string]*node{}} }

func (n *node) change(c map[string]*node) {
	apply(n.names, c)
	n.pending = append(n.pending, c)
}

func apply(names, change map[string]*node) {
	for name, n := range change {
		if n == nil {
			delete(names, name)
		} else {
			names[name] = n
		}
	}
}

// settle carries out SyncDir.
func (n *node) settle() {
	n.durable, n.pending = maps.Clone(n.names), nil
}

func (n *node) write(b []byte, off int64) {
	if grow := int(off) + len(b) - len(n.cache); grow > 0 {
		n.touch(len(n.cache), grow)
		n.cache = append(n.cache, make([]byte, grow)...)
	}
	copy(n.cache[off:], b)
	n.touch(int(off), len(b))
}

func (n *node) truncate(size int) {
	if grow := size - len(n.cache); grow > 0 {
		n.write(make([]byte, grow), int64(len(n.cache)))
		return
	}
	n.touch(size, len(n.cache)-size)
	n.cache = append([]byte(nil), n.cache[:size]...)
}

func (n *node) touch(off, length int) {
	if n.dirty == nil {
		n.dirty, n.gone = map[int]bool{}, map[int]bool{}
	}
	for s := off / SectorBytes; s*SectorBytes < off+length; s++ {
		n.dirty[s] = true
		delete(n.gone, s)
	}
}

// sync writes the dirty sectors and nothing else. Sectors that a failed one dropped stay unknown.
func (n *node) sync() {
	old := n.disk
	n.disk = make([]byte, len(n.cache))
	copy(n.disk, n.cache)
	for s := range n.gone {
		from, to := sector(s, len(n.disk))
		clear(n.disk[from:to])
		if from < len(old) {
			copy(n.disk[from:to], old[from:])
		}
	}
	clear(n.dirty)
}

// drop carries out a Sync that fails.
func (n *node) drop() {
	for s := range n.dirty {
		n.gone[s] = true
	}
	clear(n.dirty)
}

// sector returns where sector s lies in a file of a size.
func sector(s, size int) (from, to int) {
	return min(s*SectorBytes, size), min((s+1)*SectorBytes, size)
}
