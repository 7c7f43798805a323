package powerfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

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
	return with(s.node(f.mu.root))
}

// Restart kills the process and returns the same kernel for the next one, with all that is in its
// cache. Some of the sectors that failed Syncs dropped may have left the cache; the seed says
// which. Those read as the disk has them.
func (f *FS) Restart(seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.down = true
	evict(f.mu.root, rand.New(rand.NewPCG(seed, 1)), int(min(seed, moodMixed)))
	return with(f.mu.root)
}

func evict(n *node, rng *rand.Rand, mood int) {
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		evict(n.names[name], rng, mood)
	}
	for _, s := range slices.Sorted(maps.Keys(n.gone)) {
		if mood == moodNothing || mood == moodMixed && rng.IntN(2) == 0 {
			from, to := sector(s, len(n.cache))
			clear(n.cache[from:to])
			if from < len(n.disk) {
				copy(n.cache[from:to], n.disk[from:])
			}
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
	kept := make(map[string]*node, len(n.durable))
	apply(kept, n.durable)
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
