package hostile

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// listing is a draft with the members of its record for which keep holds.
func listing(d wire.Draft, keep func(slot.Member) bool) wire.Draft {
	d.Record.Members = slices.DeleteFunc(slices.Clone(d.Record.Members), func(m slot.Member) bool { return !keep(m) })
	d.Hash = d.Record.Hash()
	return d
}

// usurp drafts records that list nobody but hostile peers.
func usurp(l *liar) habit {
	return l.drafts(func(to slot.PeerID, d wire.Draft) {
		friends := l.friends()
		l.did("height %d: a record that lists only %d", d.Height, len(friends))
		l.pass(to, listing(d, func(m slot.Member) bool { return slices.Contains(friends, m.Peer.String()) }))
	})
}

// equivocate drafts one record to half of the members, and to the others one that leaves out a
// member. One of them gets both.
func equivocate(l *liar) habit {
	return l.drafts(func(to slot.PeerID, d wire.Draft) {
		others := slices.DeleteFunc(l.driver.View().Peers(), func(p slot.PeerID) bool { return p == l.self })
		half := (len(others) + 1) / 2
		if at := slices.Index(others, to); to == "" || at < half {
			l.pass(to, d)
		} else {
			l.did("height %d: two records in one ballot", d.Height)
			without := listing(d, func(m slot.Member) bool { return m.Peer != others[0] })
			l.say(without, to, others[half-1])
		}
	})
}

// drafts has what its ledger drafts go out in another form.
func (l *liar) drafts(send func(to slot.PeerID, d wire.Draft)) habit {
	return habit{says: func(to slot.PeerID, m wire.Message) bool {
		switch b := m.Body.(type) {
		case wire.Join:
			l.did("%s asks to be listed", l.self.Short())
		case wire.Draft:
			if b.ByPlan == nil { // the ledger repeats the whole draft soon
				send(to, b)
			}
			return false
		}
		return true
	}}
}
