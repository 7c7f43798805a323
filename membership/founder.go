package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// founder begins a run if no other peer does.
type founder struct {
	*facts
	*effects
	presence *presence
	model    *model
	own      *own
	catchup  *catchup
	pledges  *pledges
	founding
}

// founding is the way to a chain's first record: a fork of R_0, which needs the signature of every
// peer that it lists. That is its founder alone; where the spec names founders, those of them that
// are heard, if they are more than half of all that it names.
//
// As with later forks, one peer leads an attempt: the founder with the lowest ID. It sends the
// record to all that it lists. Each of them that has the same initial state signs it, mark on disk
// first, and sends FORK to all of them.
type founding struct {
	since time.Duration   // the discovery window counts from here
	asked bool            // the worker makes the initial state durable
	fork  *wire.EntryFork // the newest attempt signed
	attempts
	at     time.Duration // when it was signed
	sent   time.Duration
	leads  bool // the newest attempt is this peer's own
	sigs   map[slot.PeerID][]byte
	differ slot.PeerID // a founder whose proposal names another initial state; empty: none does
}

func newFounding(saved *wire.EntryFork) founding {
	f := founding{fork: saved, sent: never, sigs: map[slot.PeerID][]byte{}}
	if saved != nil {
		f.next = saved.Ballot + 1
	}
	return f
}

// consider founds the run when nobody with a chain was heard for the discovery window. Of peers
// that see each other the lowest ID does; the others give it four windows more each before they
// think that it cannot.
func (fo *founder) consider() {
	place, ok := fo.position()
	switch {
	case !ok:
	case fo.asked:
		fo.sign()
	case fo.fork != nil || fo.mayLead(place):
		fo.makeState()
	}
}

// mayLead says whether it is this peer's turn to lead an attempt.
func (fo *founder) mayLead(place int) bool {
	if fo.fork == nil {
		return fo.now-fo.since >= fo.cfg.Timing.FoundAfter*time.Duration(1+4*place)
	}
	return fo.now-fo.at >= fo.foundPause()*time.Duration(1+4*place)
}

// makeState has the worker make the initial state durable, and signs once it is.
func (fo *founder) makeState() {
	f := &fo.founding
	if f.asked = true; fo.model.state.known {
		fo.sign()
		return
	}
	fo.model.state.fromDisk = true
	fo.work(WorkFound{})
}

// claimsAsked is how often peers that claim to have a chain are asked for it in vain before their
// claims do not count any more.
const claimsAsked = 8

// position counts the heard peers that may found the run before this one. It returns false if this
// peer may not found it, and while any of them has a chain.
func (fo *founder) position() (place int, ok bool) {
	if fo.chain.Height() > 0 || fo.own.leaving || fo.cfg.NeverFounds || !fo.chain.Pinned() ||
		!fo.cfg.Rules.MayFound(fo.cfg.Self) {
		return 0, false
	}
	others := func(a *contact) bool {
		return a.alive != nil && a.memberKey != fo.self && fo.presence.around(a.memberKey)
	}
	for _, a := range fo.presence.sorted(others) {
		if a.alive.Height > 0 && fo.catchup.need.times < claimsAsked {
			return 0, false
		}
		if a.peer < fo.cfg.Self && fo.cfg.Rules.MayFound(a.peer) {
			place++
		}
	}
	return place, true
}

// sign signs the first record once its initial state is durable, or repeats what was signed. I6:
// one signature an attempt. A restarted founder repeats its signature, unless the state that it was
// for is gone: that takes another attempt. So does a record that others do not sign.
func (fo *founder) sign() {
	f := &fo.founding
	if fo.chain.Height() > 0 || !f.asked || !fo.model.state.known {
		return
	}
	alone := len(fo.cfg.Rules.Founders) < 2
	if r := f.fork; r == nil || r.Record.StateRoot != fo.model.state.root || !alone {
		fo.propose()
	}
	fo.repeat()
}

// foundPause is the time between two attempts of several founders. After it, those that signed the
// one before sign the next.
func (fo *founder) foundPause() time.Duration {
	return fo.cfg.Timing.FoundAfter + 4*fo.cfg.Timing.Retry
}

// propose opens an attempt, if it is this peer's turn and enough founders are heard.
func (fo *founder) propose() {
	f := &fo.founding
	place, ok := fo.position()
	list := fo.signers()
	stale := f.fork != nil && f.fork.Record.StateRoot != fo.model.state.root // that state is gone
	if !ok || !stale && !fo.mayLead(place) || 2*len(list) <= len(fo.cfg.Rules.Founders) {
		return
	}
	at := fo.chain.Next()
	at.Ballot = f.next
	fo.mark(at, fo.chain.SettleFork(slot.Record{
		Run: fo.cfg.Rules.Run, Height: 1, Kind: slot.Fork, Prev: at.Prev, StateRoot: fo.model.state.root,
	}, chain.Turnover{Listed: list}))
	f.leads = true
}

// signers lists the members that the first record begins with: this peer, and where the spec names
// founders, those that are heard, less those that did not sign the attempt before if the others are
// enough.
func (fo *founder) signers() (list []slot.Member) {
	f, rules := &fo.founding, fo.cfg.Rules
	list = insertMember(nil, fo.chain.Listing(fo.cfg.Self, fo.cfg.Incarnation))
	var silent []slot.Member
	for _, a := range fo.presence.sorted(func(a *contact) bool { return fo.presence.around(a.memberKey) }) {
		if !slices.Contains(rules.Founders, a.peer) || a.peer == fo.cfg.Self {
			continue
		}
		e := fo.chain.Listing(a.peer, a.inc)
		if f.leads && slot.Find(f.fork.Record.Members, a.peer) >= 0 && f.sigs[a.peer] == nil {
			silent = append(silent, e)
		} else if more := insertMember(list, e); more != nil {
			list = more
		}
	}
	for _, e := range silent {
		if more := insertMember(list, e); more != nil && 2*len(list) <= len(rules.Founders) {
			list = more
		}
	}
	return list
}

// mark signs a record, mark on disk first (I6): no other one in this attempt, whatever happens.
func (fo *founder) mark(at slot.Ref, r slot.Record) {
	f := &fo.founding
	f.fork, f.at, f.sent, f.leads = &wire.EntryFork{Ref: at, Record: r}, fo.now, never, false
	f.next, f.sigs = max(f.next, at.Ballot+1), map[slot.PeerID][]byte{}
	fo.pledges.open.Fork = f.fork
	fo.persist(*f.fork)
}

// repeat sends the own signature again to all peers that the record lists, and the record with it
// if this peer leads the attempt.
func (fo *founder) repeat() {
	f := &fo.founding
	if f.fork == nil || fo.now-f.sent < fo.cfg.Timing.Retry {
		return
	}
	f.sent = fo.now
	all := peersOf(f.fork.Record.Members)
	if others := without(all, fo.cfg.Self); f.leads && len(others) > 0 {
		fo.send(wire.ForkDraft{Ballot: f.fork.Ballot, Record: f.fork.Record}, others...)
	}
	fo.send(wire.ForkVote{Vote: slot.Vote{Ref: f.fork.Ref, Hash: f.fork.Record.Hash()}}, all...)
}

// onDraft signs the first record that another founder leads, if it lists this peer and begins from
// the initial state that this peer makes, too.
func (fo *founder) onDraft(msg wire.Message, p wire.ForkDraft) error {
	f, r := &fo.founding, p.Record
	if r.Kind != slot.Fork {
		return chain.Invalid("a %s record as a founding", r.Kind)
	}
	_, ok := fo.position()
	if _, in := chain.FindMember(r.Members, msg.From, msg.Incarnation); !in || !ok || len(fo.cfg.Rules.Founders) == 0 {
		return ErrSender
	}
	_, in := chain.FindMember(r.Members, fo.cfg.Self, fo.cfg.Incarnation)
	if !in || !f.hear(p.Ballot, fo.now, fo.foundPause()) {
		return chain.Invalid("a founding in attempt %d that does not list this peer", p.Ballot)
	}
	if err := fo.chain.Check(r, 0); err != nil {
		return err
	}
	switch s := f.fork; {
	case s != nil && s.Ballot == p.Ballot && s.Record.Hash() == r.Hash():
		fo.repeat()
	case s != nil && (s.Ballot >= p.Ballot || fo.now-f.at < fo.foundPause()/2):
		return fmt.Errorf("%w: another founding is signed", ErrStale)
	case !fo.model.state.known && !f.asked:
		fo.makeState() // the proposal is repeated meanwhile
	case fo.model.state.known && r.StateRoot != fo.model.state.root:
		f.differ = msg.From
		return chain.Invalid("a founding on state %s; here it is %s", r.StateRoot, fo.model.state.root)
	case fo.model.state.known:
		fo.mark(p.At(), r)
		fo.repeat()
	}
	return nil
}

// onVote gathers the signatures on the first record. With all of them it is certified.
func (fo *founder) onVote(msg wire.Message, v wire.ForkVote) error {
	f := &fo.founding
	if f.fork == nil || v.Ref != f.fork.Ref || v.Hash != f.fork.Record.Hash() {
		return fmt.Errorf("%w: not the founding that is signed here", ErrStale)
	}
	members := f.fork.Record.Members
	if _, in := chain.FindMember(members, msg.From, msg.Incarnation); !in {
		return ErrSender
	}
	if f.sigs[msg.From] = msg.Sig; len(f.sigs) == len(members) {
		fo.gossip(wire.Commit{Record: f.fork.Record, Certificate: certificate(v.Vote, f.sigs)}, peersOf(members)...)
	}
	return nil
}
