package membership

import (
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// onPromise gathers promises for the ballot that this peer wants to lead, and notes who can give it none.
func (m *Machine) onPromise(msg Message, p Promise) error {
	if err := m.from(msg); err != nil {
		return err
	}
	d, l := m.open, m.open.lead
	switch {
	case l == nil || p.Ballot < l.ref.Ballot || p.Ballot > l.ref.Ballot+maxBallotStep/2: // a ballot above it is to be in others' reach
		return ErrStale
	case p.Ballot > l.ref.Ballot: // to somebody else: it is lost to this ballot
		d.seen = max(d.seen, p.Ballot)
		return nil
	}
	if p.Voted {
		r := p.VoteRecord
		if p.VoteBallot >= p.Ballot || r.Height != p.Height || r.Prev != p.Prev {
			return invalid("a promise whose vote is from elsewhere")
		}
		if err := m.checkRecord(r); err != nil {
			return err
		}
	}
	l.promises[msg.From] = p
	return nil
}

// choose ends the first phase once a quorum of promises leaves a choice that this peer can carry.
//
// I1 (HOLES H3): of one chosen quorum of promises the vote of the highest ballot is proposed again, unchanged; only a quorum
// without any vote leaves a free choice. If that vote cannot be carried because its state root is not ours (H16), its voters
// are set aside, and what is left must still be a quorum: it has promised, so that vote cannot become certified any more.
func (m *Machine) choose() {
	l := m.open.lead
	quorum := maps.Clone(l.promises)
	for slot.Quorum(m.chain.electorate(), func(e slot.Member) bool { _, ok := quorum[e.Peer]; return ok }) {
		v, found := highestVote(quorum)
		switch {
		case !found:
			l.prepared = true
		case m.atTip() && v.VoteRecord.StateRoot == m.state.root:
			l.prepared, l.forced = true, &v.VoteRecord
		case !m.atTip():
			return // who is right about the state shows later
		default:
			setAside(quorum, v.VoteRecord.Hash())
			continue
		}
		m.lead()
		return
	}
}

// highestVote is the vote of the highest ballot among promises. Two votes of one ballot are for one record: its leader's.
func highestVote(promises map[slot.PeerID]Promise) (best Promise, found bool) {
	for _, p := range promises {
		if p.Voted && (!found || p.VoteBallot > best.VoteBallot) {
			best, found = p, true
		}
	}
	return best, found
}

func setAside(promises map[slot.PeerID]Promise, record slot.Root) {
	for peer, p := range promises {
		if p.Voted && p.VoteRecord.Hash() == record {
			delete(promises, peer)
		}
	}
}

// proposeAgain proposes the forced record once its outcome is held here: its voters have it.
func (m *Machine) proposeAgain() {
	l := m.open.lead
	if !m.atTip() || !m.hold(draftOf(*l.forced, l.ref.Ballot), m.votersOf(l.forced.Hash())...) {
		return
	}
	r := *l.forced
	l.forced = nil
	m.propose(r)
}

func (m *Machine) votersOf(record slot.Root) []slot.PeerID {
	var ps []slot.PeerID
	for peer, p := range m.open.lead.promises {
		if p.Voted && p.VoteRecord.Hash() == record && peer != m.cfg.Self {
			ps = append(ps, peer)
		}
	}
	slices.Sort(ps)
	return ps
}
