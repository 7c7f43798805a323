package chain

import (
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// records are the certified records of a run by height: whole ones above the floor, and of those
// below it the links and a summary (past). They do not say what any of them means; state does.
type records struct {
	genesis slot.Record   // R_0
	pin     slot.Root     // a record that must be there; zero: none
	pinned  bool          // it is there, or needs not be
	past    *past         // nil: all records are held
	commits []wire.Commit // of the heights above the floor
	hashes  []slot.Root   // from that of the record at the floor on
}

// add appends a certified record.
func (r *records) add(commit wire.Commit, hash slot.Root) {
	r.commits, r.hashes = append(r.commits, commit), append(r.hashes, hash)
	r.pinned = r.pinned || hash == r.pin
}

// clip has records that are added later leave those of a copy alone.
func (r *records) clip() {
	r.commits, r.hashes = slices.Clip(r.commits), slices.Clip(r.hashes)
}

// Floor is the height up to which records are not held whole; 0: all are held.
func (r *records) Floor() uint64 {
	if r.past == nil {
		return 0
	}
	return r.past.Floor
}

// Lowest is the lowest height whose record At gives.
func (r *records) Lowest() uint64 {
	if r.past == nil {
		return 0
	}
	return r.past.Floor + 1
}

// Start is the lowest height that the chain can be taken back to: that of its summary, or 0.
func (r *records) Start() uint64 {
	if r.past == nil {
		return 0
	}
	return r.past.Height
}

// Holds says whether the record at a height is held whole.
func (r *records) Holds(height uint64) bool { return height > r.Floor() && height <= r.Height() }

// Height returns the height of the tip; 0 while only R_0 is known.
func (r *records) Height() uint64 { return r.Floor() + uint64(len(r.commits)) }

// Commits returns the certified records that are held, from height Floor()+1 on. They must not be
// changed.
func (r *records) Commits() []wire.Commit { return r.commits }

// Above returns the certified records above a height, which is not below Floor. They must not be
// changed.
func (r *records) Above(height uint64) []wire.Commit { return r.commits[height-r.Floor():] }

// Commit returns the certified record at a height that is held, above 0.
func (r *records) Commit(height uint64) wire.Commit { return r.commits[height-r.Floor()-1] }

// At returns the record at a height that is held, or at height 0.
func (r *records) At(height uint64) slot.Record {
	if height == 0 {
		return r.genesis
	}
	return r.Commit(height).Record
}

// Tip returns the newest certified record.
func (r *records) Tip() slot.Record { return r.At(r.Height()) }

// Hash returns the hash of the record at a height that the chain has, not below Floor.
func (r *records) Hash(height uint64) slot.Root { return r.hashes[height-r.Floor()] }

// TipHash returns the hash of the tip.
func (r *records) TipHash() slot.Root { return r.hashes[len(r.hashes)-1] }

// Has says whether the chain is known to have a record at a height.
func (r *records) Has(height uint64, hash slot.Root) bool {
	switch {
	case height > r.Height():
		return false
	case height >= r.Floor():
		return r.Hash(height) == hash
	}
	return r.past.links[height] == hash
}

// StateRoot returns the certified root of the state after a height, which the record above names,
// if that one is held.
func (r *records) StateRoot(height uint64) (slot.Root, bool) {
	if !r.Holds(height + 1) {
		return slot.Root{}, false
	}
	return r.At(height + 1).StateRoot, true
}

// Pin returns the hash of a record that the chain must have; zero: none.
func (r *records) Pin() slot.Root { return r.pin }

// Pinned says whether the chain has its pin, or needs none.
func (r *records) Pinned() bool { return r.pinned }

// Past returns what the chain keeps in the place of old records; nil: it holds all records.
func (r *records) Past() *wire.Past {
	if r.past == nil {
		return nil
	}
	return &r.past.Past
}

// linkHashes returns the hashes of all links of the chain, by height.
func (r *records) linkHashes() map[uint64]slot.Root {
	all := map[uint64]slot.Root{}
	from := r.Start()
	if r.past != nil {
		maps.Copy(all, r.past.links)
	}
	for h := from + 1; h <= r.Height(); h++ {
		if isLink(r.At(h), r.At(h-1).Electors()) {
			all[h] = r.Hash(h)
		}
	}
	return all
}

// linkAbove returns the height of the lowest link above a height, and whether it is a fork; 0: none
// is there.
func (r *records) linkAbove(height uint64) (at uint64, fork bool) {
	if r.past != nil {
		for h := range r.past.links {
			if h > height && (at == 0 || h < at) {
				at = h
			}
		}
		if at > 0 {
			return at, r.past.forks[at]
		}
	}
	for h := max(height, r.Start()) + 1; h <= r.Height(); h++ {
		if isLink(r.At(h), r.At(h-1).Electors()) {
			return h, r.At(h).Kind == slot.Fork
		}
	}
	return 0, false
}

// LastingAbove returns the hash of a record above a height that outlives those around it: the
// record right above, if it is held, else the first link.
func (r *records) LastingAbove(height uint64) (hash slot.Root) {
	if r.Holds(height + 1) {
		return r.Hash(height + 1)
	}
	first := r.Height() + 1
	for h, l := range r.linkHashes() {
		if h > height && h < first {
			first, hash = h, l
		}
	}
	return hash
}

// holdsPin says whether the chain as it begins has its pin, or needs none.
func (r *records) holdsPin() bool {
	if r.pin.IsZero() || r.pin == r.genesis.Hash() || r.pin == r.past.Pin ||
		slices.Contains(r.hashes, r.pin) {
		return true
	}
	for _, hash := range r.past.links {
		if hash == r.pin {
			return true
		}
	}
	return false
}

// commonHeight returns the height of the newest record that two chains of one run are known to
// share. Meets says whether both hold it.
func (r *records) commonHeight(o *records) uint64 {
	h, least := min(r.Height(), o.Height()), max(r.Floor(), o.Floor())
	for ; h >= least; h-- {
		if r.Hash(h) == o.Hash(h) {
			return h
		}
		if h == 0 {
			break
		}
	}
	return r.commonLink(o)
}

// commonLink returns the height of the newest link that two chains share, or 0.
func (r *records) commonLink(o *records) (height uint64) {
	theirs := o.linkHashes()
	for h, hash := range r.linkHashes() {
		if h > height && theirs[h] == hash {
			height = h
		}
	}
	return height
}

// partedBy says whether two chains are known to have different records at a height up to both tips.
// Both may have forgotten where they parted.
func (r *records) partedBy(o *records) bool {
	last, ours, theirs := min(r.Height(), o.Height()), r.linkHashes(), o.linkHashes()
	differ := func(a, b map[uint64]slot.Root) bool {
		for h, hash := range a {
			if h <= last && b[h] != hash {
				return true
			}
		}
		return false
	}
	if differ(ours, theirs) || differ(theirs, ours) {
		return true
	}
	for h := max(r.Floor(), o.Floor()); h <= last; h++ {
		if r.Hash(h) != o.Hash(h) {
			return true
		}
	}
	return false
}

// meets says whether both hold the newest record that they share, and can be taken back to
// it.
func (r *records) meets(o *records) bool {
	h := r.commonHeight(o)
	return h >= max(r.Start(), o.Start()) && r.Hash(h) == o.Hash(h)
}

// goesOn says whether a chain goes on from this one, whose tip it may not hold any more: it has all
// links of this one, and no other ones up to its tip.
func (r *records) goesOn(o *records) bool {
	if r.Height() >= o.Floor() {
		return o.Has(r.Height(), r.TipHash())
	}
	ours := r.linkHashes()
	for h, hash := range o.past.links {
		if h <= r.Height() {
			if ours[h] != hash {
				return false
			}
			delete(ours, h)
		}
	}
	return len(ours) == 0
}
