package hostile

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// mute is heard, and neither says HAVE nor votes, not even for its own vote; so it does not lead
// either, because a leader's record has its vote.
func mute(l *liar) {
	l.says = func(to slot.PeerID, m wire.Message) bool {
		switch b := m.Body.(type) {
		case wire.Have:
			l.did("height %d: no HAVE", b.Height)
			return false
		case wire.Vote:
			l.did("height %d: no VOTE", b.Height)
			return false
		}
		return leadsNot(to, m)
	}
}

// pickyFeed offers to one member alone, always the same.
func pickyFeed(l *liar) {
	l.says = func(to slot.PeerID, m wire.Message) bool {
		o, ok := m.Body.(wire.Offer)
		others := l.others()
		if !ok || len(others) == 0 {
			return true
		}
		l.did("slot %d: an offer to one member", o.Slot)
		if to == "" {
			l.say(o, others[0])
		}
		return to == others[0]
	}
}

// Ballots that highBallot names: one far above all others, and steps that members may still take.
const (
	hugeBallot = 1 << 31
	ballotStep = 1 << 15
)

// highBallot does nothing where it leads, and names ballots that only grow: in promises, and in its
// own name where it would lead them.
func highBallot(l *liar) {
	l.says = leadsNot
	height, climbed := uint64(0), uint32(0)
	l.acts = func() {
		v := l.driver.View()
		if height != v.Ref.Height {
			height, climbed = v.Ref.Height, 0
		}
		climbed += ballotStep
		for _, ballot := range []uint32{climbed, hugeBallot} {
			l.nameTerms(v.Ref, v.Peers(), ballot)
		}
		l.did("height %d: ballots above %d", height, climbed)
	}
}

// nameTerms promises the first ballots of as many terms in a row as there are members, without a
// lock, and asks for the second ones: it leads one of them.
func (l *liar) nameTerms(at slot.Ref, members []slot.PeerID, first uint32) {
	for i := range members {
		at.Ballot = first + uint32(i)*slot.Tries
		l.say(wire.Promise{Ref: at}, members...)
		at.Ballot++
		l.say(wire.Retry{Ref: at}, members...)
	}
}
