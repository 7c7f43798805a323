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
	peak     uint64        // the greatest height of a record, also of a chain that was given up
	past     *wire.Past    // nil: all records are kept
	chain    []wire.Commit // above the floor of past
	tip      slot.Root     // hash of the chain's last record, or of R_0
	offerSeq uint64
	pledges  map[wire.Position]wire.Pledge
	garbage  int64 // bytes of entries, without frames, that a compacted log would not have
}

func newState(run slot.Root, inc slot.Incarnation) *state {
	return &state{run: run, inc: inc, tip: slot.Genesis(run).Hash(), pledges: map[wire.Position]wire.Pledge{}}
}

// fold folds what is saved at once.
func (s *state) fold(entries []wire.Entry) error {
	for _, e := range entries {
		if err := s.apply(e); err != nil {
			return err
		}
	}
	s.forgetWords()
	return nil
}

// apply folds one entry. An error means that the entry cannot follow the ones before it.
func (s *state) apply(e wire.Entry) error {
	switch e.(type) {
	case wire.EntryCommit, wire.EntryPast:
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
		s.keepDecided(e)
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
		return s.commit(e)
	case wire.EntryRewind:
		return s.rewind(e.Height)
	case wire.EntryPast:
		return s.forget(e)
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

func (s *state) commit(e wire.EntryCommit) error {
	begins := s.past != nil && len(s.chain) == 0
	if e.Record.Height != s.height()+1 || !begins && e.Record.Prev != s.tip || e.Record.Run != s.run {
		return fmt.Errorf("the record at height %d does not follow the one at height %d", e.Record.Height, s.height())
	}
	if at := (wire.Position{Height: e.Record.Height, Prev: e.Record.Prev}); e.Record.Kind == slot.Fork {
		// A fork record decides nothing among its siblings, so the pledges there still bind.
	} else if p := s.pledges[at]; p.Fork != nil {
		s.pledges[at] = wire.Pledge{Fork: p.Fork}
	} else {
		delete(s.pledges, at)
	}
	s.chain, s.tip = append(s.chain, wire.Commit(e)), e.Record.Hash()
	s.peak = max(s.peak, e.Record.Height)
	return nil
}

func (s *state) rewind(height uint64) error {
	least := s.floor()
	if s.past != nil {
		least = s.past.Height
	}
	if height > s.height() || height < least {
		return fmt.Errorf("rewound to height %d, but the chain is from %d to %d", height, least, s.height())
	}
	kept := height - s.floor()
	for _, c := range s.chain[kept:] {
		s.garbage += int64(len(wire.AppendEntry(nil, wire.EntryCommit(c))))
		s.keepDecided(wire.EntryDecided(c))
	}
	// Make a copy, because the result of an earlier Load shares the old array.
	s.chain, s.tip = append([]wire.Commit(nil), s.chain[:kept]...), slot.Genesis(s.run).Hash()
	if kept > 0 {
		s.tip = s.chain[kept-1].Record.Hash()
	}
	return nil
}

// floor is the height up to which records are not kept.
func (s *state) floor() uint64 {
	if s.past == nil {
		return 0
	}
	return s.past.Floor
}

func (s *state) height() uint64 { return s.floor() + uint64(len(s.chain)) }

// forget drops the records up to a floor, or all of them.
func (s *state) forget(e wire.EntryPast) error {
	drop := s.chain
	if !e.Fresh {
		if e.Floor < s.floor() || e.Floor >= e.Height || e.Height > s.height() {
			return fmt.Errorf("records up to height %d forgotten for a summary at %d, but the chain is from %d to %d",
				e.Floor, e.Height, s.floor(), s.height())
		}
		drop = s.chain[:e.Floor-s.floor()]
	}
	for _, c := range drop {
		s.garbage += int64(len(wire.AppendEntry(nil, wire.EntryCommit(c))))
	}
	next := e.Past
	if s.past != nil {
		s.garbage += int64(len(s.past.Summary))
		if !e.Fresh {
			next.Links = append(slices.Clip(s.past.Links), e.Links...)
		}
	}
	// Make a copy, because the result of an earlier Load shares the old array.
	s.past, s.chain = &next, append([]wire.Commit(nil), s.chain[len(drop):]...)
	return nil
}

// forgetWords drops what was promised, voted and decided at heights up to that of the summary: the
// chain is not taken back there, and no chain replaces it that could be. The machine does the same.
func (s *state) forgetWords() {
	if s.past == nil {
		return
	}
	maps.DeleteFunc(s.pledges, func(at wire.Position, p wire.Pledge) bool {
		if at.Height > s.past.Height {
			return false
		}
		for _, e := range appendPledge(nil, p) {
			s.garbage += int64(len(wire.AppendEntry(nil, e)))
		}
		return true
	})
}

// keepDecided keeps a certified record of a chain that is given up, in the place of the votes for
// it. The machine does the same.
func (s *state) keepDecided(e wire.EntryDecided) {
	if e.Record.Kind != slot.Fork {
		s.pledge(slot.Ref{Height: e.Record.Height, Prev: e.Record.Prev}, func(p *wire.Pledge) { p.Decided = &e })
	}
}

// saved returns what a machine starts from.
func (s *state) saved() wire.Saved {
	open := wire.Position{Height: s.height() + 1, Prev: s.tip}
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
		Incarnation: s.inc, Boot: s.boot, Past: s.past, Chain: s.chain[:len(s.chain):len(s.chain)],
		Pledge: s.pledges[open], OfferSeq: s.offerSeq, Elsewhere: elsewhere,
	}
}

// compacted lists the fewest entries that fold to the same state.
func (s *state) compacted() []wire.Entry {
	entries := []wire.Entry{
		wire.EntryBoot{Count: s.boot}, wire.EntryOffer{Seq: s.offerSeq}, wire.EntryPeak{Height: s.peak},
	}
	if s.past != nil {
		entries = append(entries, wire.EntryPast{Past: *s.past, Fresh: true})
	}
	for _, c := range s.chain {
		entries = append(entries, wire.EntryCommit(c))
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
