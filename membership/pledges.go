package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// pledges keeps what this peer has promised, voted and signed, all of it on disk, at the open
// position and elsewhere (HOLES H7).
type pledges struct {
	*facts
	at   wire.Position // the pledge at the open position
	open wire.Pledge
	kept map[wire.Position]wire.Pledge
	// Where a record was certified that this peer gave up since. After a restart it is not known
	// which of the positions elsewhere these are, so all count.
	decided map[wire.Position]bool
}

// restore takes back what the store kept, each entry at its own position.
func (pl *pledges) restore(saved wire.Saved) {
	entries := saved.Elsewhere
	if saved.Promise != nil {
		entries = append(entries[:len(entries):len(entries)], *saved.Promise)
	}
	if saved.Vote != nil {
		entries = append(entries[:len(entries):len(entries)], *saved.Vote)
	}
	if saved.Fork != nil {
		entries = append(entries[:len(entries):len(entries)], *saved.Fork)
	}
	for _, e := range saved.Elsewhere {
		if v, ok := e.(wire.EntryVote); ok {
			pl.decided[wire.Position{Height: v.Height, Prev: v.Prev}] = true
		}
	}
	for _, e := range entries {
		switch e := e.(type) {
		case wire.EntryPromise:
			at := wire.Position{Height: e.Height, Prev: e.Prev}
			w := pl.kept[at]
			w.Promise = &e
			pl.kept[at] = w
		case wire.EntryVote:
			at := wire.Position{Height: e.Height, Prev: e.Prev}
			w := pl.kept[at]
			w.Vote = &e
			pl.kept[at] = w
		case wire.EntryFork:
			at := wire.Position{Height: e.Height, Prev: e.Prev}
			w := pl.kept[at]
			w.Fork = &e
			pl.kept[at] = w
		}
	}
}

// openPledge takes up what was promised and voted at the position that is open now.
func (pl *pledges) openAt(at wire.Position) {
	pl.at, pl.open = at, pl.kept[at]
	delete(pl.kept, at)
}

// logged is what the vote log has of one position.
type logged struct {
	wire.Pledge
	decided bool // a record was certified here: votes in other ballots than its own are forgotten
}

// of returns what this peer promised and voted at the height of a record, after the record before
// it.
func (pl *pledges) of(r slot.Record) logged {
	at := wire.Position{Height: r.Height, Prev: r.Prev}
	if at == pl.at {
		return logged{pl.open, pl.decided[at]}
	}
	return logged{pl.kept[at], pl.decided[at]}
}

// setAside keeps the pledge at the open position when the chain is left without a decision there.
func (pl *pledges) setAside() {
	if pl.open != (wire.Pledge{}) {
		pl.kept[pl.at] = pl.open
	}
}

// leave keeps what still binds once a record is certified at the open position: of a step or
// members record nothing but a fork that was signed there. A fork decides nothing here: the whole
// pledge stays.
func (pl *pledges) leave(kind slot.Kind) {
	if kind != slot.Fork {
		pl.open = wire.Pledge{Fork: pl.open.Fork}
	}
	pl.setAside()
}

// keepDecided remembers a certified record as a vote in its ballot. A fork decides nothing among
// its siblings.
func (pl *pledges) keepDecided(c wire.Commit) {
	if c.Record.Kind == slot.Fork {
		return
	}
	at := wire.Position{Height: c.Record.Height, Prev: c.Record.Prev}
	w := pl.kept[at]
	w.Vote = &wire.EntryVote{Ref: c.Certificate.Ref, Record: c.Record}
	pl.kept[at], pl.decided[at] = w, true
}
