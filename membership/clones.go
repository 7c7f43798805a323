package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// An identity may be used twice: a key was copied to two machines, or an old copy of a data
// directory was put back. Both break what the others rely on, that an incarnation remembers what it
// signed. Here is what the ledger shows, of processes that run at the same time or ran one after
// the other. The proof must be something that this process cannot have signed before, and that
// nobody can make by repeating its earlier messages:
//
//   - a certificate with a vote or fork signature of this incarnation that is not in its log: words
//     are on disk before they are sent, so the log is an old copy, or another process has one, too;
//   - a contribution of it that is not in its log, in a record of a chain on which this incarnation
//     has voted, or contributed what is in its log. Records list contributions without signatures:
//     voters saw those, and whoever has founded a chain alone is all its voters. So two others have
//     signed the record, and the chain is not provisional: one member that forks alone, or the
//     senior of two, is all its voters, too;
//   - an ALIVE of another incarnation under this identity about a record that is not older than the
//     membership of this one: an earlier life had ended before the record that lists this one was
//     made. (Having caught up would not do: a branch, or a part of the chain, that comes later may
//     be older than this life.)
const cloneAdvice = "this identity is used by another process at the same time, or the data directory is an old " +
	"copy: stop the other " +
	"process; if there is none, move ledger.log and state/ away, and the peer comes back as a new member"

// clones finds out that this peer's identity is used twice.
type clones struct {
	*facts
	*effects
	own     string // why it is known to be; empty: it is not
	claimed bool   // an event has told of contributions that prove nothing
}

// onClone looks at a message that another process has sent under this peer's name.
func (cl *clones) onClone(msg wire.Message) {
	a, ok := msg.Body.(wire.Alive)
	self, member := chain.FindMember(cl.chain.Members(), cl.cfg.Self, cl.cfg.Incarnation)
	if ok && member && msg.From == cl.cfg.Self && msg.Incarnation != cl.cfg.Incarnation && a.Height >= self.Since &&
		cl.chain.Has(a.Height, a.Tip) {
		cl.cloned("another process speaks under this peer's identity; " + cloneAdvice)
	}
}

// cloned reports, once, that this peer's identity is used twice.
func (cl *clones) cloned(detail string) {
	if cl.own != "" {
		return
	}
	cl.own = detail
	cl.reportPeer(EventCloned, "", cl.cfg.Self, detail)
}

// checkOwnSignatures looks into a record that was certified on a chain for words of this
// incarnation that are not in its log.
func (cl *clones) checkOwnSignatures(c wire.Commit, on *chain.Chain, w wire.Pledge, offerSeq uint64) {
	r, cert := c.Record, c.Certificate
	forgot := cl.signed(c, on)
	if r.Kind == slot.Fork {
		forgot = forgot && (w.Fork == nil || w.Fork.Ballot < cert.Ballot)
	} else {
		// Where a record was certified, and given up with its branch, the votes are forgotten, and
		// a leader that lies may have had another record certified with one of them.
		forgot = forgot && w.Decided == nil && (w.Vote == nil || w.Vote.Ballot < cert.Ballot)
	}
	listed := cl.lists(r, on, offerSeq)
	switch {
	case forgot || listed && cl.vouched(c, on) && cl.spokeOn(on, r.Height, offerSeq):
		cl.cloned("the chain has words of this peer that its ledger.log does not know; " + cloneAdvice)
	case listed && !cl.claimed:
		cl.claimed = true
		cl.reportPeer(EventSuspected, ReasonUnknownOffers, cl.cfg.Self,
			"the chain lists contributions that this peer's ledger.log does not know: the data directory is "+
				"an old copy, or those who decide on this chain have made them up")
	}
}

// vouched says whether others than one liar must have seen what a record lists.
func (cl *clones) vouched(c wire.Commit, on *chain.Chain) bool {
	others := slices.DeleteFunc(slices.Clone(c.Certificate.Signatures),
		func(s slot.Signature) bool { return s.Peer == cl.cfg.Self })
	_, provisional := on.Provisional()
	return len(others) > 1 && !provisional
}

// signed says whether a record was certified with a signature of this incarnation.
func (cl *clones) signed(c wire.Commit, on *chain.Chain) bool {
	voters := c.Record.Members
	if c.Record.Kind != slot.Fork {
		voters = on.At(c.Record.Height - 1).Members
	}
	return cl.isMember(voters) && slices.ContainsFunc(c.Certificate.Signatures,
		func(s slot.Signature) bool { return s.Peer == cl.cfg.Self })
}

// lists says whether a record lists a contribution of this incarnation with a number that it has
// never used. An offer that an earlier incarnation made counts for nothing: this one must have been
// a member when the slot began.
func (cl *clones) lists(r slot.Record, on *chain.Chain, offerSeq uint64) bool {
	return cl.isMember(beganWith(on, r.Height)) && slices.ContainsFunc(r.Contributions,
		func(o slot.Offer) bool { return o.Peer == cl.cfg.Self && o.Seq > offerSeq })
}

// spokeOn says whether this incarnation signed any of the records of a chain that are held, up to a
// height, or contributed to one what its log knows of. Strangers that have founded a chain can make
// up neither, of a peer that has said nothing yet.
func (cl *clones) spokeOn(on *chain.Chain, height, offerSeq uint64) bool {
	return slices.ContainsFunc(on.Commits(), func(c wire.Commit) bool {
		h := c.Record.Height
		if h > height || h > 1 && c.Record.Kind != slot.Fork && !on.Holds(h-1) {
			return false
		}
		return cl.signed(c, on) || slices.ContainsFunc(c.Record.Contributions, func(o slot.Offer) bool {
			return o.Peer == cl.cfg.Self && o.Seq <= offerSeq && cl.isMember(on.At(h-1).Members)
		})
	})
}

// isMember says whether this incarnation is one of these members.
func (cl *clones) isMember(members []slot.Member) bool {
	_, ok := chain.FindMember(members, cl.cfg.Self, cl.cfg.Incarnation)
	return ok
}

// beganWith returns the members with which the slot of a record began: those of the step before it.
func beganWith(on *chain.Chain, height uint64) []slot.Member {
	for height--; height > 0 && on.At(height).Kind != slot.Step; height-- {
	}
	return on.At(height).Members
}
