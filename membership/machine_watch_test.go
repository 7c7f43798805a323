package membership

import (
	"fmt"
	"maps"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// watcher knows all that was ever sent and saved in a world, and says what contradicts an
// invariant.
type watcher struct {
	successor map[slot.Root]slot.Root // I1: of a record, the one that was certified
	certified map[slot.Root]bool
	states    map[slot.Root]slot.Root // I2: after a record
	hashes    map[string]map[uint64]slot.Root
	said      map[string]slot.Root // I6: votes, proposals and offers, by signer and subject
	promised  map[string]uint32
	faults    []string
}

func newWatcher() *watcher {
	return &watcher{
		successor: map[slot.Root]slot.Root{}, certified: map[slot.Root]bool{}, states: map[slot.Root]slot.Root{},
		hashes: map[string]map[uint64]slot.Root{}, said: map[string]slot.Root{}, promised: map[string]uint32{},
	}
}

func (w *watcher) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// persisted notes the certified records that a peer adopts.
func (w *watcher) persisted(p *labPeer, entries []wire.Entry) {
	for _, e := range entries {
		switch e := e.(type) {
		case wire.EntryRewind:
			maps.DeleteFunc(w.hashes[p.name], func(height uint64, _ slot.Root) bool { return height > e.Height })
		case wire.EntryCommit:
			if w.hashes[p.name] == nil {
				w.hashes[p.name] = map[uint64]slot.Root{}
			}
			w.hashes[p.name][e.Record.Height] = e.Record.Hash()
			w.certify(e.Record)
		}
	}
}

// loaded notes what a peer finds on its disk when it starts: a power cut may have lost some of what
// it was about to adopt.
func (w *watcher) loaded(p *labPeer, commits []wire.Commit) {
	w.hashes[p.name] = map[uint64]slot.Root{}
	for _, c := range commits {
		w.hashes[p.name][c.Record.Height] = c.Record.Hash()
	}
}

// certify checks I1: one certified step or members record after each record.
func (w *watcher) certify(r slot.Record) {
	h := r.Hash()
	w.certified[h] = true
	if r.Kind == slot.Fork {
		return
	}
	if had, ok := w.successor[r.Prev]; ok && had != h {
		w.fault("I1: two records are certified at height %d", r.Height)
	}
	w.successor[r.Prev] = h
}

// applies checks I5: only what is certified is applied, and its certificate is on this peer's disk
// by then.
func (w *watcher) applies(p *labPeer, r slot.Record) {
	if !w.certified[r.Hash()] || w.hashes[p.name][r.Height] != r.Hash() {
		w.fault("I5: %s applies height %d uncertified", p.name, r.Height)
	}
}

// holds checks I2: one state after each record.
func (w *watcher) holds(p *labPeer, height uint64, root slot.Root) {
	at, ok := w.hashes[p.name][height]
	if !ok {
		return
	}
	if had, ok := w.states[at]; ok && had != root {
		w.fault("I2: %s has another state after height %d", p.name, height)
	}
	w.states[at] = root
}

// sent checks I6: nothing contradicts what the same incarnation said before.
func (w *watcher) sent(p *labPeer, msg wire.Message) {
	who := fmt.Sprintf("%s/%d", p.name, msg.Incarnation)
	once := func(what string, value slot.Root) {
		key := who + " " + what
		if had, ok := w.said[key]; ok && had != value {
			w.fault("I6: %s contradicts itself", key)
		}
		w.said[key] = value
	}
	switch b := msg.Body.(type) {
	case wire.Vote:
		once(fmt.Sprintf("vote %d %s %d", b.Height, b.Prev.Short(), b.Ballot), b.Hash)
		if at := fmt.Sprintf("%s %d %s", who, b.Height, b.Prev.Short()); w.promised[at] > b.Ballot {
			w.fault("I6: %s votes in ballot %d after it promised %d", who, b.Ballot, w.promised[at])
		}
	case wire.Draft, wire.Have, wire.Propose:
		v := voteIn(b)
		once(fmt.Sprintf("%s %d %s %d", wire.TypeName(b.Type()), v.Height, v.Prev.Short(), v.Ballot), v.Hash)
		if at := fmt.Sprintf("%s %d %s", who, v.Height, v.Prev.Short()); w.promised[at] > v.Ballot {
			if _, have := b.(wire.Have); have {
				w.fault("I6: %s gives HAVE in ballot %d after it promised %d", who, v.Ballot, w.promised[at])
			}
		}
	case wire.ForkDraft:
		once(fmt.Sprintf("fork proposal %d %s %d", b.Record.Height, b.Record.Prev.Short(), b.Ballot), b.Record.Hash())
	case wire.ForkVote:
		once(fmt.Sprintf("fork %d %s %d", b.Height, b.Prev.Short(), b.Ballot), b.Hash)
	case wire.Offer:
		once(fmt.Sprintf("offer %d", b.Seq), slot.Hash(b.Append(nil)))
	case wire.Promise:
		at := fmt.Sprintf("%s %d %s", who, b.Height, b.Prev.Short())
		w.promised[at] = max(w.promised[at], b.Ballot)
	}
}

// voteIn is the vote that a body of a ballot's record has in it.
func voteIn(b wire.Body) slot.Vote {
	switch b := b.(type) {
	case wire.Draft:
		return b.Vote
	case wire.Have:
		return b.Vote
	case wire.Propose:
		return b.Vote
	case wire.Vote:
		return b.Vote
	}
	return slot.Vote{}
}
