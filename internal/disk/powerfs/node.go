package powerfs

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"testing/fstest"
)

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
	size := len(n.cache)
	n.disk = append(n.disk[:min(size, len(n.disk))], make([]byte, max(0, size-len(n.disk)))...)
	for s := range n.dirty {
		copySector(n.disk, n.cache, s)
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

// copySector sets a sector of dst to what src has there: zeros behind its end.
func copySector(dst, src []byte, s int) {
	from, to := sector(s, len(dst))
	clear(dst[from:to])
	if from < len(src) {
		copy(dst[from:to], src[from:])
	}
}

// info describes the node under a name.
func (n *node) info(name string) fs.FileInfo {
	file := &fstest.MapFile{Data: n.cache, Mode: 0o600}
	if n.names != nil {
		file.Mode = fs.ModeDir | 0o700
	}
	info, err := fstest.MapFS{name: file}.Stat(name)
	if err != nil {
		panic("powerfs: " + err.Error())
	}
	return info
}

// Moods are ways in which a disk comes out of a power cut. Each of the first seeds has one mood for
// everything; later seeds mix them.
const (
	moodNothing = iota // nothing survives that was not synced
	moodAll            // everything survives
	moodNames          // names and sizes survive, but no bytes
	moodBytes          // bytes survive, but no names
	moodMixed
)

// Reboot cuts the power and returns what is on the disk then. The seed says what survives of the
// things that were not synced: 0 nothing, 1 all of it, 2 names and sizes without bytes, 3 bytes
// without names. Every higher seed is another mixture.
func (f *FS) Reboot(seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.down = true
	s := survivors{rand.New(rand.NewPCG(seed, 0)), int(min(seed, moodMixed)), map[*node]*node{}}
	return newFS(s.node(f.mu.root))
}

// Restart kills the process and returns the same kernel for the next one, with all that is in its
// cache. Some of the sectors that failed Syncs dropped may have left the cache; the seed says
// which. Those read as the disk has them.
func (f *FS) Restart(seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.down = true
	evict(f.mu.root, rand.New(rand.NewPCG(seed, 1)), int(min(seed, moodMixed)))
	return newFS(f.mu.root)
}

func evict(n *node, rng *rand.Rand, mood int) {
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		evict(n.names[name], rng, mood)
	}
	for _, s := range slices.Sorted(maps.Keys(n.gone)) {
		if mood == moodNothing || mood == moodMixed && rng.IntN(2) == 0 {
			copySector(n.cache, n.disk, s)
			delete(n.gone, s)
		}
	}
}

// survivors makes the nodes that come out of a power cut.
type survivors struct {
	rng  *rand.Rand
	mood int
	made map[*node]*node // a file with two names stays one
}

func (s *survivors) node(n *node) *node {
	if m := s.made[n]; m != nil {
		return m
	}
	m := &node{}
	s.made[n] = m
	if n.names == nil {
		m.disk = s.bytes(n)
		m.cache = slices.Clone(m.disk)
		return m
	}
	m.names = map[string]*node{}
	kept := maps.Clone(n.durable)
	for _, c := range n.pending {
		if s.chance(moodNames) {
			apply(kept, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		m.names[name] = s.node(kept[name])
	}
	m.settle()
	return m
}

// bytes returns what a file holds.
func (s *survivors) bytes(n *node) []byte {
	if len(n.dirty)+len(n.gone) == 0 && len(n.cache) == len(n.disk) {
		return slices.Clone(n.disk)
	}
	b := make([]byte, s.size(len(n.disk), len(n.cache)))
	copy(b, n.disk)
	for _, unsynced := range []map[int]bool{n.dirty, n.gone} {
		for _, k := range slices.Sorted(maps.Keys(unsynced)) {
			from, to := sector(k, len(b))
			if s.chance(moodBytes) {
				if s.mood == moodMixed && s.rng.IntN(4) == 0 && from < to {
					to = from + s.rng.IntN(to-from) // torn
				}
				if from < len(n.cache) {
					copy(b[from:to], n.cache[from:])
				}
			}
		}
	}
	return b
}

func (s *survivors) size(old, now int) int {
	switch {
	case s.mood == moodNothing:
		return old
	case s.mood != moodMixed || s.rng.IntN(2) == 0:
		return now
	}
	return min(old, now) + s.rng.IntN(max(old, now)-min(old, now)+1)
}

// chance tells whether something that was not synced survives. moodAll and its own mood keep all of
// it.
func (s *survivors) chance(own int) bool {
	if s.mood == moodMixed {
		return s.rng.IntN(2) == 0
	}
	return s.mood == moodAll || s.mood == own
}
