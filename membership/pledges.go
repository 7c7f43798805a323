package membership

import (
	"maps"

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
}

// restore takes back what the store kept.
func (pl *pledges) restore(saved wire.Saved, open wire.Position) {
	maps.Copy(pl.kept, saved.Elsewhere)
	pl.kept[open] = saved.Pledge
}

// openAt takes up what was promised and voted at the position that is open now.
func (pl *pledges) openAt(at wire.Position) {
	pl.at, pl.open = at, pl.kept[at]
	delete(pl.kept, at)
}

// find returns what this peer signed at the height of a record, after the record before it.
func (pl *pledges) find(r slot.Record) wire.Pledge {
	at := wire.Position{Height: r.Height, Prev: r.Prev}
	if at == pl.at {
		return pl.open
	}
	return pl.kept[at]
}

// signed returns the record of this hash that this peer gave HAVE or VOTE for at the open position.
func (pl *pledges) signed(hash slot.Root) (r slot.Record, ok bool) {
	if h := pl.open.Have; h != nil && h.Record.Hash() == hash {
		return h.Record, true
	}
	if v := pl.open.Vote; v != nil && v.QC.Hash == hash {
		return v.Record, true
	}
	return r, false
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

// keepDecided remembers a certified record of a branch that is left.
func (pl *pledges) keepDecided(c wire.Commit) {
	at := wire.Position{Height: c.Record.Height, Prev: c.Record.Prev}
	w := pl.kept[at]
	decided := wire.EntryDecided(c)
	w.Decided = &decided
	pl.kept[at] = w
}

// pass keeps what still binds at the place of a record of a chain that this peer moves to. The
// store does the same.
func (pl *pledges) pass(r slot.Record) {
	at := wire.Position{Height: r.Height, Prev: r.Prev}
	w, ok := pl.kept[at]
	if !ok || r.Kind == slot.Fork {
		return
	}
	if delete(pl.kept, at); w.Fork != nil {
		pl.kept[at] = wire.Pledge{Fork: w.Fork}
	}
}
