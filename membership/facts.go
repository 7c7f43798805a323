package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// facts is what every part of the machine reads and none of them changes: the configuration, the
// time of the newest input, and the certified chain. Machine replaces the chain as a whole when
// this peer switches to another branch.
type facts struct {
	cfg   Config
	boot  uint64 // how often this peer's store was opened
	self  memberKey
	now   time.Duration
	chain *chain.Chain
	// a verified chain with the pin, of which only the index is held: its records are asked for
	// again, and taken in one by one. nil: none
	path *chain.Chain
}

func newFacts(cfg Config, boot uint64) *facts {
	return &facts{
		cfg: cfg, boot: boot, self: memberKey{cfg.Self, cfg.Incarnation},
		chain: chain.New(cfg.Rules, cfg.Pin),
	}
}

// elector says whether this peer decides the open height: never on a chain without the pin.
func (f *facts) elector() bool {
	_, ok := chain.FindMember(f.chain.Electorate(), f.cfg.Self, f.cfg.Incarnation)
	return ok && f.chain.Pinned()
}

// mayGrow says whether the chain may take in records: it has the pin, or leads to it.
func (f *facts) mayGrow() bool { return f.chain.Pinned() || f.path != nil }

// member says whether this peer takes part in the run, with a seat or without.
func (f *facts) member() bool {
	_, ok := chain.FindMember(f.chain.Members(), f.cfg.Self, f.cfg.Incarnation)
	return ok && f.chain.Pinned()
}

// checkElector refuses a message that comes from no elector.
func (f *facts) checkElector(msg wire.Message) error {
	if _, ok := chain.FindMember(f.chain.Electorate(), msg.From, msg.Incarnation); !ok {
		return ErrSender
	}
	return nil
}

// tolerated is how many electors may lie, be dead or be cut off: those of four and more, in trust
// byzantine.
func (f *facts) tolerated() int { return f.chain.Rules().Liars(len(f.chain.Electorate())) }

// checkMember refuses a message that comes from no member.
func (f *facts) checkMember(msg wire.Message) error {
	if _, ok := chain.FindMember(f.chain.Members(), msg.From, msg.Incarnation); !ok {
		return ErrSender
	}
	return nil
}

// memberKey is a peer in one incarnation: the unit of membership.
type memberKey struct {
	peer slot.PeerID
	inc  slot.Incarnation
}

func ofMember(e slot.Member) memberKey { return memberKey{e.Peer, e.Incarnation} }

func keysOf(members []slot.Member) []memberKey {
	ks := make([]memberKey, len(members))
	for i, e := range members {
		ks[i] = ofMember(e)
	}
	return ks
}

// closingDue says whether the run's last state root waits to be certified.
func (f *facts) closingDue() bool { return f.chain.Ended() && !f.chain.Closed() }

// cameDuring says whether a peer has become a member after the open slot had begun. It finishes its
// inner steps later than the others, and no joiner holds up a slot: with a large swarm's comings
// and goings, each slot would wait for somebody. A peer that was a member when the slot began, and
// was dropped and listed again since, began with the others.
func (f *facts) cameDuring(p slot.PeerID) bool {
	c := f.chain
	i := slot.Find(c.Members(), p)
	if i < 0 || c.LastStep() == 0 {
		return false
	}
	_, began := chain.FindMember(c.At(c.LastStep()).Members, p, c.Members()[i].Incarnation)
	return !began
}

// electorsWithout lists the electors for which done does not hold.
func (f *facts) electorsWithout(done func(slot.PeerID) bool) []slot.PeerID {
	var ps []slot.PeerID
	for _, e := range f.chain.Electorate() {
		if !done(e.Peer) {
			ps = append(ps, e.Peer)
		}
	}
	return ps
}
