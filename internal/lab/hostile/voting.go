package hostile

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// mute is heard, and neither says HAVE nor votes; so it does not lead either, because a leader's
// record has its vote.
func mute(l *liar) habit {
	return habit{says: func(_ slot.PeerID, m wire.Message) bool {
		switch b := m.Body.(type) {
		case wire.Have:
			l.did("height %d: no HAVE", b.Height)
			return false
		case wire.Vote:
			l.did("height %d: no VOTE", b.Height)
			return false
		}
		return !leadersWork(m.Body)
	}}
}

// silentNewcomer asks to be listed, contributes, and never says HAVE, not even for its own vote.
func silentNewcomer(l *liar) habit {
	return habit{says: func(_ slot.PeerID, m wire.Message) bool {
		switch b := m.Body.(type) {
		case wire.Join:
			l.did("%s asks to be listed", l.self.Short())
		case wire.Have:
			l.did("height %d: no HAVE", b.Height)
			return false
		}
		return true
	}}
}

// pickyFeed offers to one elector alone, always the same.
func pickyFeed(l *liar) habit {
	return habit{says: func(to slot.PeerID, m wire.Message) bool {
		o, ok := m.Body.(wire.Offer)
		if !ok {
			return true
		}
		others := slices.DeleteFunc(l.driver.View().Peers(), func(p slot.PeerID) bool { return p == l.self })
		if len(others) == 0 {
			return true
		}
		l.did("slot %d: an offer to one elector", o.Slot)
		if to == "" {
			l.say(o, others[0])
		}
		return to == others[0]
	}}
}
