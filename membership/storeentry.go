package membership

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// entryBoot counts the openings of a store; it never leaves it.
type entryBoot struct{ n uint64 }

func (entryBoot) isEntry() {}

// Kinds of entries on disk. The enumeration only grows.
const (
	kindPromise = 1
	kindVote    = 2
	kindOffer   = 3
	kindFork    = 4
	kindCommit  = 5
	kindRewind  = 6
	kindBoot    = 7
)

func appendEntry(b []byte, e Entry) []byte {
	switch e := e.(type) {
	case EntryPromise:
		return wire.AppendBytes(append(b, kindPromise), e.Ref.Append(nil))
	case EntryVote:
		return wire.AppendBytes(append(b, kindVote), e.Record.Append(e.Ref.Append(nil)))
	case EntryOffer:
		return wire.AppendBytes(append(b, kindOffer), wire.AppendU64(nil, e.Seq))
	case EntryFork:
		return wire.AppendBytes(append(b, kindFork), e.Record.Append(e.Ref.Append(nil)))
	case EntryCommit:
		return wire.AppendBytes(append(b, kindCommit), e.Certificate.Append(e.Record.Append(nil)))
	case EntryRewind:
		return wire.AppendBytes(append(b, kindRewind), wire.AppendU64(nil, e.Height))
	case entryBoot:
		return wire.AppendBytes(append(b, kindBoot), wire.AppendU64(nil, e.n))
	}
	panic(fmt.Sprintf("membership: entry %T has no encoding", e))
}

// parseEntries takes a frame's payload apart. Errors wrap wire.ErrMalformed.
func parseEntries(b []byte) ([]Entry, error) {
	var entries []Entry
	for r := wire.NewReader(b); r.Len() > 0; {
		kind, fields := r.U8(), r.Bytes(len(b))
		if err := r.Err(); err != nil {
			return nil, err
		}
		e, err := parseEntry(kind, fields)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func parseEntry(kind uint8, b []byte) (Entry, error) {
	r := wire.NewReader(b)
	var e Entry
	switch kind {
	case kindPromise:
		e = EntryPromise{slot.ReadRef(r)}
	case kindVote:
		e = EntryVote{slot.ReadRef(r), slot.ReadRecord(r)}
	case kindOffer:
		e = EntryOffer{r.U64()}
	case kindFork:
		e = EntryFork{slot.ReadRef(r), slot.ReadRecord(r)}
	case kindCommit:
		e = EntryCommit{slot.ReadRecord(r), slot.ReadCertificate(r)}
	case kindRewind:
		e = EntryRewind{r.U64()}
	case kindBoot:
		e = entryBoot{r.U64()}
	default:
		return nil, fmt.Errorf("%w: entry kind %d: a newer release wrote it", wire.ErrMalformed, kind)
	}
	return e, r.Done()
}

// ledgerState is what a log amounts to: the entries folded, oldest first.
type ledgerState struct {
	run      slot.Root
	inc      slot.Incarnation
	boot     uint64
	chain    []Commit
	tip      slot.Root // hash of the chain's last record, or of R_0
	offerSeq uint64
	words    map[place]word
	garbage  int64 // bytes of entries, frames left aside, that a compacted log would not have
}

// place is what a promise, a vote or a fork signature is about. Votes are keyed by the record before, too: one chain's votes
// mean nothing on another, and are not forgotten for it (HOLES H7).
type place struct {
	height uint64
	prev   slot.Root
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.height, o.height), bytes.Compare(p.prev[:], o.prev[:]))
}

// word is the newest promise, vote and fork signature at one place.
type word struct {
	promise *EntryPromise
	vote    *EntryVote
	fork    *EntryFork
}

func newLedgerState(run slot.Root, inc slot.Incarnation) *ledgerState {
	return &ledgerState{run: run, inc: inc, tip: slot.Genesis(run).Hash(), words: map[place]word{}}
}

// apply folds one entry in. An error says that the entry cannot follow the ones before it.
func (s *ledgerState) apply(e Entry) error {
	switch e := e.(type) {
	case EntryPromise:
		w := s.words[place{e.Height, e.Prev}]
		if w.promise == nil || w.promise.Ballot <= e.Ballot {
			w.promise = &e
		}
		s.words[place{e.Height, e.Prev}] = w
	case EntryVote:
		w := s.words[place{e.Height, e.Prev}]
		if w.vote == nil || w.vote.Ballot <= e.Ballot {
			w.vote = &e
		}
		s.words[place{e.Height, e.Prev}] = w
	case EntryFork:
		w := s.words[place{e.Height, e.Prev}]
		if w.fork == nil || w.fork.Ballot <= e.Ballot {
			w.fork = &e
		}
		s.words[place{e.Height, e.Prev}] = w
	case EntryOffer:
		s.offerSeq = max(s.offerSeq, e.Seq)
	case EntryCommit:
		return s.commit(e)
	case EntryRewind:
		return s.rewind(e.Height)
	case entryBoot:
		s.boot = max(s.boot, e.n)
	}
	return nil
}

func (s *ledgerState) commit(e EntryCommit) error {
	if e.Record.Height != uint64(len(s.chain))+1 || e.Record.Prev != s.tip || e.Record.Run != s.run {
		return fmt.Errorf("the record at height %d does not follow the one at height %d", e.Record.Height, len(s.chain))
	}
	if at := (place{e.Record.Height, e.Record.Prev}); e.Record.Kind == slot.Fork {
		// It decides nothing among its siblings: what was said there still binds.
	} else if w := s.words[at]; w.fork != nil {
		s.words[at] = word{fork: w.fork}
	} else {
		delete(s.words, at)
	}
	s.chain, s.tip = append(s.chain, Commit(e)), e.Record.Hash()
	return nil
}

func (s *ledgerState) rewind(height uint64) error {
	if height > uint64(len(s.chain)) {
		return fmt.Errorf("rewound to height %d, but the chain ends at %d", height, len(s.chain))
	}
	for _, c := range s.chain[height:] {
		s.garbage += int64(len(appendEntry(nil, EntryCommit(c))))
		s.keepDecided(c)
	}
	// A copy: what Load gave away shares the old array.
	s.chain, s.tip = append([]Commit(nil), s.chain[:height]...), slot.Genesis(s.run).Hash()
	if height > 0 {
		s.tip = s.chain[height-1].Record.Hash()
	}
	return nil
}

// keepDecided remembers a certified record of a chain given up as a vote in its ballot, as Machine.keepDecided does.
func (s *ledgerState) keepDecided(c Commit) {
	if c.Record.Kind != slot.Fork {
		at := place{c.Record.Height, c.Record.Prev}
		w := s.words[at]
		w.vote = &EntryVote{c.Certificate.Ref, c.Record}
		s.words[at] = w
	}
}

// saved is what a machine starts from.
func (s *ledgerState) saved() Saved {
	open := place{uint64(len(s.chain)) + 1, s.tip}
	w := s.words[open]
	return Saved{
		Incarnation: s.inc, Boot: s.boot, Chain: s.chain[:len(s.chain):len(s.chain)],
		Promise: w.promise, Vote: w.vote, Fork: w.fork, OfferSeq: s.offerSeq, Elsewhere: s.elsewhere(open),
	}
}

// elsewhere lists the promises, votes and fork signatures at all places but the open one: the chain may come back to them (HOLES H7).
func (s *ledgerState) elsewhere(open place) (entries []Entry) {
	for _, at := range slices.SortedFunc(maps.Keys(s.words), place.compare) {
		w := s.words[at]
		if at == open {
			continue
		}
		if w.promise != nil {
			entries = append(entries, *w.promise)
		}
		if w.vote != nil {
			entries = append(entries, *w.vote)
		}
		if w.fork != nil {
			entries = append(entries, *w.fork)
		}
	}
	return entries
}

// compacted lists the fewest entries that fold to the same state.
func (s *ledgerState) compacted() []Entry {
	entries := []Entry{entryBoot{s.boot}, EntryOffer{s.offerSeq}}
	for _, c := range s.chain {
		entries = append(entries, EntryCommit(c))
	}
	// Words about a height that the chain has passed on another branch come after it, so that no commit drops them.
	for _, w := range s.words {
		if w.promise != nil {
			entries = append(entries, *w.promise)
		}
		if w.vote != nil {
			entries = append(entries, *w.vote)
		}
		if w.fork != nil {
			entries = append(entries, *w.fork)
		}
	}
	return entries
}
