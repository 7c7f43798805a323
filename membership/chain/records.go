package chain

import (
	"fmt"
	"slices"
	"sort"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// HeldRecords is how many of the newest records a chain holds in memory, at least: as many as one
// may be taken back by itself, and some for the choice at the oldest of them. All records are on
// disk.
const HeldRecords = MaxSiblingAge + 8

// records are the certified records of a run by height: what names each of them, and the newest
// ones whole. They do not say what any of them means; state does.
type records struct {
	pin     slot.Root     // a record that must be there; zero: none
	pinned  bool          // it is there, or needs not be
	index   []indexed     // of all heights, from R_0 on
	floor   uint64        // records below this height are on disk alone
	ground  slot.Record   // the one at the floor
	commits []wire.Commit // of the heights above
	disk    wire.Records
}

// indexed is what is known of each record without reading it.
type indexed struct {
	hash slot.Root
	slot uint64
}

// add appends a certified record.
func (r *records) add(commit wire.Commit, hash slot.Root) {
	r.commits = append(r.commits, commit)
	r.note(commit.Record, hash)
}

// note enters a record in the index.
func (r *records) note(record slot.Record, hash slot.Root) {
	r.index = append(r.index, indexed{hash, record.Slot})
	r.pinned = r.pinned || hash == r.pin
}

// upTo returns the records up to a height, which is not below the floor.
func (r *records) upTo(height uint64) records {
	b := *r
	// records that are added later leave those here alone
	b.index, b.commits = slices.Clip(r.index[:height+1]), slices.Clip(r.commits[:height-r.floor])
	b.pinned = r.pin.IsZero() || slices.ContainsFunc(b.index, func(i indexed) bool { return i.hash == r.pin })
	return b
}

// Floor is the lowest height whose record At gives.
func (r *records) Floor() uint64 { return r.floor }

// Holds says whether the record at a height is held in memory with its certificate.
func (r *records) Holds(height uint64) bool { return height > r.floor && height <= r.Height() }

// Height returns the height of the tip; 0 while only R_0 is known.
func (r *records) Height() uint64 { return uint64(len(r.index)) - 1 }

// Commits returns the certified records that are held, from height Floor()+1 on. They must not be
// changed.
func (r *records) Commits() []wire.Commit { return r.commits }

// Above returns the certified records above a height, which is not below Floor. They must not be
// changed.
func (r *records) Above(height uint64) []wire.Commit { return r.commits[height-r.floor:] }

// Commit returns the certified record at a height that is held, above 0.
func (r *records) Commit(height uint64) wire.Commit { return r.commits[height-r.floor-1] }

// At returns the record at a height that is held, or at the floor.
func (r *records) At(height uint64) slot.Record {
	if height == r.floor {
		return r.ground
	}
	return r.Commit(height).Record
}

// Read returns the certified record at any height from 1 to the tip's: from disk if it is not held.
func (r *records) Read(height uint64) (wire.Commit, error) {
	if r.Holds(height) {
		return r.Commit(height), nil
	}
	if height == 0 || height > r.Height() || r.disk == nil {
		return wire.Commit{}, fmt.Errorf("no record at height %d of %d", height, r.Height())
	}
	c, err := r.disk.Record(height)
	if err == nil && c.Record.Hash() != r.Hash(height) {
		err = fmt.Errorf("the record at height %d on disk is not the chain's", height)
	}
	return c, err
}

// ElectorsAt lists who decides after the record at a height that the chain has.
func (r *records) ElectorsAt(height uint64) ([]slot.Member, error) {
	switch height {
	case 0: // nobody decides after R_0
		return nil, nil
	case r.floor:
		return r.ground.Electors(), nil
	}
	c, err := r.Read(height)
	return c.Record.Electors(), err
}

// Tip returns the newest certified record. It is held always.
func (r *records) Tip() slot.Record { return r.At(r.Height()) }

// Hash returns the hash of the record at a height that the chain has.
func (r *records) Hash(height uint64) slot.Root { return r.index[height].hash }

// SlotAt returns the slot of the record at a height that the chain has.
func (r *records) SlotAt(height uint64) uint64 { return r.index[height].slot }

// TipHash returns the hash of the tip.
func (r *records) TipHash() slot.Root { return r.Hash(r.Height()) }

// Has says whether the chain has a record at a height.
func (r *records) Has(height uint64, hash slot.Root) bool {
	return height <= r.Height() && r.Hash(height) == hash
}

// TermsLost counts, by elector, the terms that it led at the newest 64 heights and in which no
// record was certified: its clock ended, or it resigned.
func (r *records) TermsLost() map[slot.PeerID]int {
	lost := map[slot.PeerID]int{}
	for h := max(r.floor, r.Height()-min(r.Height(), 64)) + 1; h <= r.Height(); h++ {
		c := r.Commit(h)
		terms := c.Certificate.Vote.Term()
		if before := r.At(h - 1); terms > 0 && c.Record.Kind != slot.Fork && len(before.Electors()) > 0 {
			order := slot.LeaderOrder(c.Record.Run, h, before.Electors())
			for t := range min(terms, 1000) {
				lost[order[t%uint32(len(order))].Peer]++
			}
		}
	}
	return lost
}

// StateRoot returns the certified root of the state after a height, which the record above names,
// if there is one.
func (r *records) StateRoot(height uint64) (slot.Root, bool) {
	c, err := r.Read(height + 1)
	return c.Record.StateRoot, err == nil
}

// Pin returns the hash of a record that the chain must have; zero: none.
func (r *records) Pin() slot.Root { return r.pin }

// Pinned says whether the chain has its pin, or needs none.
func (r *records) Pinned() bool { return r.pinned }

// CommonHeight returns the height of the newest record that two chains of one run share.
func (c *Chain) CommonHeight(o *Chain) uint64 {
	n := min(len(c.index), len(o.index))
	// a record names the one before it, so all below a shared one are shared
	return uint64(sort.Search(n, func(h int) bool { return c.index[h].hash != o.index[h].hash })) - 1
}
