package membership

import (
	"fmt"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// reason says in plain words why nothing is decided here, or why this peer is no member yet; ""
// where there is nothing to explain.
func (m *Machine) reason() string {
	switch {
	case m.own.left:
		return ""
	case m.exit.done:
		return m.exit.branchReason
	case m.exit.final:
		return m.whyProvisional()
	case m.exit.missed:
		return "the run is over, and no peer is heard that holds its final model"
	case !m.chain.Pinned() && m.chain.Height() > 0:
		return "the chain on disk does not have the pinned record: looking for peers of the one that has it"
	case m.chain.Height() == 0 && len(m.cfg.Rules.Founders) > 0:
		return m.whyNotFounded()
	case m.member() && m.fork.without:
		return m.whyPaused()
	case m.model.state.diverged:
		return "the state here differs from the certified one: fetching that"
	case !m.member() && m.chain.Height() > 0:
		return m.whyJoining()
	}
	return m.participant.whyShort()
}

// whyNotFounded names the peers that the run waits for.
func (m *Machine) whyNotFounded() string {
	var missing []string
	for _, p := range m.cfg.Rules.Founders {
		heard := func(a *contact) bool { return a.peer == p && m.presence.around(a.memberKey) }
		if p != m.cfg.Self && len(m.presence.sorted(heard)) == 0 {
			missing = append(missing, p.Short())
		}
	}
	if p := m.founder.differ; p != "" {
		return fmt.Sprintf("founder %s begins from another initial state than this peer: give both the same seed and "+
			"trainer, or the same --init file", p.Short())
	}
	if len(missing) == 0 {
		return "waiting for the run's founders to sign its first record"
	}
	all := len(m.cfg.Rules.Founders)
	return fmt.Sprintf("the run has no record yet: %d of its %d founders must sign the first, and not heard are %s: "+
		"start them, or, if they are gone for good, start all peers with new data directories", all/2+1, all,
		strings.Join(missing, ", "))
}

// whyPaused names the members that are missing.
func (m *Machine) whyPaused() string {
	var missing []string
	electors := m.chain.Electorate()
	for _, e := range electors {
		if m.quorum.present(e) {
			continue
		}
		why := "not heard"
		if a := m.presence.known[ofMember(e)]; m.presence.around(ofMember(e)) && a != nil {
			why = "on another branch"
		} else if m.presence.cameBack(e) {
			why = "back without its ledger, which makes it another member"
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", e.Peer.Short(), why))
	}
	return fmt.Sprintf("%d of %d electors missing: %s; goes on when %s", len(missing), len(electors),
		strings.Join(missing[:min(len(missing), 8)], ", "), m.whatNext())
}

// tooFew says whether fewer electors are heard than it takes to go on without a quorum.
func (m *Machine) tooFew() bool {
	return m.fork.without && !m.chain.MayFork(m.quorum.present)
}

// whatNext says what ends the pause: the return of some, or what happens if they stay away.
func (m *Machine) whatNext() string {
	back := "1 of them is back"
	if n := m.quorum.missingVotes(); n > 1 {
		back = fmt.Sprintf("%d of them are back", n)
	}
	left := m.cfg.Timing.ForkAfter - (m.now - m.fork.lost)
	switch {
	case m.tooFew():
		return fmt.Sprintf("%s, since too few are left to go on without them (it takes more than half of the "+
			"electors, or half with %s): %s", back, slot.Senior(m.chain.Electorate()).Peer.Short(), foundAnew)
	case m.fork.stalled() && !m.model.atTip():
		return fmt.Sprintf("%s, since the state after slot %d died with those that held it: %s", back,
			m.chain.Tip().Slot, foundAnew)
	case m.fork.stalled():
		return back + "; going on without them"
	case m.cfg.PauseOnLoss || m.cfg.Timing.ForkAfter == 0:
		return back + ", or: p2pdiloco recover"
	}
	return fmt.Sprintf("%s, or without them in %v", back, max(left, 0).Round(time.Second))
}

// foundAnew is what is left to do where a run cannot go on with those that are left.
const foundAnew = "start them again, or, if they are gone for good, end this peer and found a new run from its " +
	"model, with a new NAME; the outer momentum begins at 0 there: p2pdiloco export --data-dir DIR --out FILE, then " +
	"p2pdiloco join --run NAME --found --init FILE"

func (m *Machine) whyJoining() string {
	i := slot.Find(m.chain.Members(), m.cfg.Self)
	switch {
	case m.motions.barred(m.cfg.Self):
		return "the members have removed this peer from the run, " + m.Access(m.cfg.Self).RemovalText(m.cfg.Self)
	case m.roster.expelled(m.cfg.Self):
		return "the run has evicted this peer for good, because its key has signed two messages that contradict " +
			"each other: it can take part as a new peer only, with a new data directory"
	case m.fork.without:
		return "this peer hears no member of the run: start one of them, or check the network (p2pdiloco doctor)"
	case len(m.catchup.ahead()) > 0:
		return "fetching the chain"
	case !m.model.state.known:
		return "fetching the state"
	case m.model.state.height < m.chain.Height():
		return "catching up with the newest state"
	case i >= 0:
		return "the members still list this peer with the ledger that it lost: it is a member again once they have " +
			"agreed to drop that entry"
	}
	if !m.roster.mayCome(m.cfg.Self, m.roster.room()) {
		return fmt.Sprintf("this open run takes %d newcomers a slot, and has them: this peer waits for the next slot",
			m.chain.Newcomers().Quota())
	}
	return "this peer has asked to be a member and waits for the next record"
}
