package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// state is what a log amounts to: its entries folded, oldest first.
type state struct {
	run      slot.Root
	inc      slot.Incarnation
	boot     uint64
	peak     uint64 // the greatest height of a record, also of a chain that was given up
	chain    []wire.EntryRecord
	offerSeq uint64
	pledges  map[wire.Position]wire.Pledge
	garbage  int64 // bytes of entries, without frames, that a compacted log would not have
}

func newState(run slot.Root, inc slot.Incarnation) *state {
	return &state{run: run, inc: inc, pledges: map[wire.Position]wire.Pledge{}}
}

// apply folds one entry. An error means that the entry cannot follow the ones before it.
func (s *state) apply(e wire.Entry) error {
	switch e.(type) {
	case wire.EntryCommit, wire.EntryRecord:
	default:
		s.garbage += int64(len(wire.AppendEntry(nil, e)))
	}
	switch e := e.(type) {
	case wire.EntryPromise:
		s.pledge(e.Ref, func(p *wire.Pledge) {
			if p.Promise == nil || p.Promise.Ballot <= e.Ballot {
				p.Promise = &e
			}
		})
	case wire.EntryHave:
		s.pledge(e.Ref, func(p *wire.Pledge) {
			if p.Have == nil || p.Have.Ballot <= e.Ballot {
				p.Have = &e
			}
		})
	case wire.EntryDecided:
		s.pledge(slot.Ref{Height: e.Record.Height, Prev: e.Record.Prev}, func(p *wire.Pledge) { p.Decided = &e })
	case wire.EntryVote:
		s.pledge(e.Ref, func(p *wire.Pledge) {
			if p.Vote == nil || p.Vote.Ballot <= e.Ballot {
				p.Vote = &e
			}
		})
	case wire.EntryFork:
		s.pledge(e.Ref, func(p *wire.Pledge) {
			if p.Fork == nil || p.Fork.Ballot <= e.Ballot {
				p.Fork = &e
			}
		})
	case wire.EntryOffer:
		s.offerSeq = max(s.offerSeq, e.Seq)
	case wire.EntryCommit:
		if e.Record.Prev != tipOf(s.run, s.chain) || e.Record.Run != s.run {
			return fmt.Errorf("the record at height %d does not follow the chain", e.Record.Height)
		}
		return s.add(wire.EntryRecord{Height: e.Record.Height, Kind: e.Record.Kind, Hash: e.Record.Hash()})
	case wire.EntryRecord:
		return s.add(e)
	case wire.EntryRewind:
		return s.rewind(e.Height)
	case wire.EntryBoot:
		s.boot = max(s.boot, e.Count)
	case wire.EntryPeak:
		s.peak = max(s.peak, e.Height)
	}
	return nil
}

// pledge changes the pledge at a position.
func (s *state) pledge(ref slot.Ref, change func(*wire.Pledge)) {
	at := wire.Position{Height: ref.Height, Prev: ref.Prev}
	p := s.pledges[at]
	change(&p)
	s.pledges[at] = p
}

// add appends a record to the chain.
func (s *state) add(e wire.EntryRecord) error {
	if e.Height != s.height()+1 {
		return fmt.Errorf("the record at height %d does not follow the one at height %d", e.Height, s.height())
	}
	if at := (wire.Position{Height: e.Height, Prev: tipOf(s.run, s.chain)}); e.Kind == slot.Fork {
		// A fork record decides nothing among its siblings, so the pledges there still bind.
	} else if p := s.pledges[at]; p.Fork != nil {
		s.pledges[at] = wire.Pledge{Fork: p.Fork}
	} else {
		delete(s.pledges, at)
	}
	s.chain, s.peak = append(s.chain, e), max(s.peak, e.Height)
	return nil
}

func (s *state) rewind(height uint64) error {
	if height > s.height() {
		return fmt.Errorf("rewound to height %d, but the chain ends at %d", height, s.height())
	}
	for _, r := range s.chain[height:] {
		s.garbage += int64(len(wire.AppendEntry(nil, r)))
	}
	s.chain = s.chain[:height]
	return nil
}

func (s *state) height() uint64 { return uint64(len(s.chain)) }

// saved returns what a machine starts from.
func (s *state) saved() wire.Saved {
	open := wire.Position{Height: s.height() + 1, Prev: tipOf(s.run, s.chain)}
	var elsewhere map[wire.Position]wire.Pledge
	for at, p := range s.pledges {
		if at != open {
			if elsewhere == nil {
				elsewhere = map[wire.Position]wire.Pledge{}
			}
			elsewhere[at] = p
		}
	}
	return wire.Saved{
		Incarnation: s.inc, Boot: s.boot, Height: s.height(), Tip: open.Prev, Pledge: s.pledges[open],
		OfferSeq: s.offerSeq, Elsewhere: elsewhere,
	}
}

// compacted lists the fewest entries that fold to the same state.
func (s *state) compacted() []wire.Entry {
	entries := []wire.Entry{
		wire.EntryBoot{Count: s.boot}, wire.EntryOffer{Seq: s.offerSeq}, wire.EntryPeak{Height: s.peak},
	}
	for _, r := range s.chain {
		entries = append(entries, r)
	}
	// Pledges at a height that the chain has passed on another branch come after the chain, so that
	// no commit drops them.
	for _, at := range slices.SortedFunc(maps.Keys(s.pledges), wire.Position.Compare) {
		entries = appendPledge(entries, s.pledges[at])
	}
	return entries
}

func appendPledge(entries []wire.Entry, p wire.Pledge) []wire.Entry {
	if p.Promise != nil {
		entries = append(entries, *p.Promise)
	}
	if p.Have != nil {
		entries = append(entries, *p.Have)
	}
	if p.Vote != nil {
		entries = append(entries, *p.Vote)
	}
	if p.Decided != nil {
		entries = append(entries, *p.Decided)
	}
	if p.Fork != nil {
		entries = append(entries, *p.Fork)
	}
	return entries
}
