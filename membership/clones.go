package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// An identity may be used twice: a key was copied to two machines, or an old copy of a data
// directory was put back. Both break what the others rely on, that an incarnation remembers what it
// signed. Two processes that run with one key at the same time are noticed by the network, whatever
// they say (p2p.Network.Twin). Here is what the ledger shows, also of processes that ran one after
// the other. The proof must be something that this process cannot have signed before, and that
// nobody can make by repeating its earlier messages:
//
//   - a certificate with a vote or fork signature of this incarnation, or a contribution of it,
//     that is not in its log: words are on disk before they are sent, so the log is an old copy, or
//     another process has one, too;
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
	own string // why it is known to be; empty: it is not
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
	cl.event(Event{
		Kind: EventCloned, Height: cl.chain.Height(), Slot: cl.chain.Tip().Slot, Peer: cl.cfg.Self, Detail: detail,
	})
}

// checkOwnSignatures looks into a record that was certified on a chain for signatures of this
// incarnation that are not in its log. Voters have seen the signatures of all contributors, so a
// certificate stands for these, too. An offer that an earlier incarnation made counts for nothing:
// this one must have been a member when the slot began.
func (cl *clones) checkOwnSignatures(c wire.Commit, on *chain.Chain, w wire.Pledge, offerSeq uint64) {
	r, cert := c.Record, c.Certificate
	electorate, began := on.At(r.Height-1).Members, beganWith(on, r.Height)
	signed := slices.ContainsFunc(cert.Signatures, func(s slot.Signature) bool { return s.Peer == cl.cfg.Self })
	mine := func(ms []slot.Member) bool { _, ok := chain.FindMember(ms, cl.cfg.Self, cl.cfg.Incarnation); return ok }
	forgot := false
	if r.Kind == slot.Fork {
		forgot = signed && mine(r.Members) && (w.Fork == nil || w.Fork.Ballot < cert.Ballot)
	} else {
		// Where a record was certified, and given up with its branch, the votes are forgotten, and
		// a leader that lies may have had another record certified with one of them.
		forgot = signed && mine(electorate) && w.Decided == nil && (w.Vote == nil || w.Vote.Ballot < cert.Ballot)
	}
	for _, o := range r.Contributions {
		forgot = forgot || o.Peer == cl.cfg.Self && o.Seq > offerSeq && mine(began)
	}
	if forgot {
		cl.cloned("the chain has words of this peer that its ledger.log does not know; " + cloneAdvice)
	}
}

// beganWith returns the members with which the slot of a record began: those of the step before it.
func beganWith(on *chain.Chain, height uint64) []slot.Member {
	for height--; height > 0 && on.At(height).Kind != slot.Step; height-- {
	}
	return on.At(height).Members
}
