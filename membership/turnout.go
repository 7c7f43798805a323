package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// turnout keeps which electors take no part in decisions, though they are heard. Half a liar says
// ALIVE and does nothing else: each record waits for it as for a dead one, and nobody drops it.
//
// An elector sees only what is sent to it, and HAVE and VOTE go to the leader. So three things
// count as taking part:
//   - a signature in a certificate;
//   - a HAVE or VOTE that comes here, for the open height or, late, for one that is decided;
//   - a record certified in a term, for its leader.
//
// A certificate has the first quorum's signatures. Whoever has a slow link may be in none, and only
// leaders see its votes. So an elector that has been in no certificate for lateHeights shows its
// VOTE for the newest record to all electors. That comes early enough, and one elector in each of a
// few heights sends it: an honest elector that can vote is never mute.
//
// What this peer did not see counts against nobody: heights that it only caught up with are left
// out. In trust crash nothing of this is kept.
type turnout struct {
	*facts
	quorum *quorum
	of     map[memberKey]*participation
	term   ledTerm
}

// participation is what one elector has not done since it last took part.
type participation struct {
	heights, steps int // decided without it
	terms          int // that it led in a row, with work owed, without a certificate
}

// ledTerm is the term that this peer follows.
type ledTerm struct {
	ref     slot.Ref // of its first ballot that was followed
	leader  memberKey
	since   time.Duration
	timeout time.Duration // that its leader has
}

// These say when an elector is mute.
const (
	muteHeights = 8 // decided without it
	muteSteps   = 2 // of them
	muteTerms   = 3
	lateHeights = 3 // so that there are two tries before that
)

// note takes in a HAVE or VOTE, however late, or the HAVEs of a QC: for the open height, or for a
// record of this chain. Others commit their signers to nothing.
func (tu *turnout) note(msg wire.Message) {
	w := memberKey{msg.From, msg.Incarnation}
	switch b := msg.Body.(type) {
	case wire.Have:
		tu.noteSignature(w, b.Vote)
	case wire.Vote:
		tu.noteSignature(w, b.Vote)
	case wire.Propose:
		for _, h := range b.QC.Haves {
			tu.noteSignature(memberKey{h.Peer, h.Incarnation}, b.Vote)
		}
	}
}

func (tu *turnout) noteSignature(w memberKey, v slot.Vote) {
	p, next := tu.of[w], tu.chain.Next()
	open := v.Height == next.Height && v.Prev == next.Prev
	decided := v.Height > 0 && tu.chain.Has(v.Height, v.Hash) && tu.chain.Height()-v.Height < muteHeights
	if p != nil && (open || decided) {
		p.heights, p.steps = 0, 0
	}
}

// decided counts a record against the electors that did not sign it, if this peer took part in the
// decision itself, and starts to count for new electors. It says whether it is time to show a vote
// for the record to all electors.
func (tu *turnout) decided(c wire.Commit, before []slot.Member, leader slot.Member, tookPart bool) (late bool) {
	if !tu.cfg.Rules.Byzantine {
		return false
	}
	was := tu.of
	tu.of = map[memberKey]*participation{}
	for _, e := range tu.chain.Electorate() {
		w := ofMember(e)
		p := was[w]
		if p == nil {
			p = &participation{}
		} else if _, elected := chain.FindMember(before, w.peer, w.inc); elected && (tookPart || w == tu.self) {
			p.heights++
			p.steps += btoi(c.Record.Kind == slot.Step)
		}
		if hasSigned(c.Certificate.Signatures, w.peer) {
			p.heights, p.steps = 0, 0
		}
		if w == ofMember(leader) {
			p.terms = 0
		}
		tu.of[w] = p
	}
	self := tu.of[tu.self]
	if self == nil || self.heights < lateHeights {
		return false
	}
	self.heights = 0
	return true
}

func hasSigned(sigs []slot.Signature, p slot.PeerID) bool {
	return slices.ContainsFunc(sigs, func(s slot.Signature) bool { return s.Peer == p })
}

// restart forgets what was counted on another branch.
func (tu *turnout) restart() {
	tu.of = map[memberKey]*participation{}
	for _, e := range tu.chain.Electorate() {
		tu.of[ofMember(e)] = &participation{}
	}
}

// watch notes when a term ends without a certificate. It counts against its leader if work was owed
// for as long as a leader has, and a quorum is heard.
func (tu *turnout) watch(at slot.Ref, leader slot.Member, owed, timeout time.Duration) {
	t := &tu.term
	here := at.Height == t.ref.Height && at.Prev == t.ref.Prev
	if here && ofMember(leader) == t.leader {
		t.timeout = timeout // a step may be owed by now
		return
	}
	if p := tu.of[t.leader]; p != nil && here && owed != never && tu.now-max(owed, t.since) >= t.timeout &&
		tu.quorum.heard() {
		p.terms++
	}
	*t = ledTerm{ref: at, leader: ofMember(leader), since: tu.now, timeout: timeout}
}

// fault says in a word and in plain words what an elector fails to do; "" of one that takes part.
// More faults than a quorum can spare are the network's, or this peer's own: all leaders fail where
// a reduction takes longer than they have, and without this they would drop each other.
func (tu *turnout) fault(w memberKey) (why Reason, text string) {
	if why, text = tu.faultOf(w); why == "" {
		return "", ""
	}
	n := 0
	for o := range tu.of {
		why, _ := tu.faultOf(o)
		n += btoi(why != "")
	}
	if electors := len(tu.chain.Electorate()); n > electors-tu.cfg.Rules.Votes(electors) {
		return "", ""
	}
	return why, text
}

func (tu *turnout) faultOf(w memberKey) (why Reason, text string) {
	p := tu.of[w]
	switch {
	case p == nil || w == tu.self:
		return "", ""
	case p.heights >= muteHeights && p.steps >= muteSteps:
		return ReasonMute, fmt.Sprintf("has not voted for %d heights", p.heights)
	case p.terms >= muteTerms:
		return ReasonNoRecord, fmt.Sprintf("has led %d terms in a row without a record", p.terms)
	}
	return "", ""
}
