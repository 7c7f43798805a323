package membership

import (
	"fmt"
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

// founding is the way to a chain's first record: a fork of R_0 that lists its founder and needs
// only that signature.
type founding struct {
	since time.Duration   // the discovery window counts from here
	asked bool            // the worker makes the initial state durable
	fork  *wire.EntryFork // the newest attempt signed
	sent  time.Duration
}

func newFounding(saved *wire.EntryFork) founding { return founding{fork: saved, sent: never} }

// considerFounding founds the run when nobody with a chain was heard for the discovery window. Of
// peers that see each other the lowest ID does; the others give it four windows more each before
// they think that it cannot.
func (fo *founder) consider() {
	f := &fo.founding
	if fo.chain.Height() > 0 || fo.own.leaving || fo.cfg.NeverFounds || !fo.chain.Pinned() ||
		!fo.cfg.Rules.MayFound(fo.cfg.Self) {
		return
	}
	place, ok := fo.position()
	if !ok {
		return
	}
	if f.asked {
		fo.sign()
		return
	}
	if f.fork == nil && fo.now-f.since < fo.cfg.Timing.FoundAfter*time.Duration(1+4*place) {
		return
	}
	f.asked = true
	if fo.model.state.known {
		fo.sign()
		return
	}
	fo.model.state.fromDisk = true
	fo.work(WorkFound{})
}

// claimsAsked is how often peers that claim to have a chain are asked for it in vain before their
// claims do not count any more.
const claimsAsked = 8

// foundingPlace counts the heard peers that may found the run before this one. It returns false
// while any of them has a chain.
func (fo *founder) position() (place int, ok bool) {
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

// signFounding signs the first record once its initial state is durable. I6: one signature an
// attempt. A restarted founder repeats its signature, unless the state that it was for is gone:
// that takes another attempt.
func (fo *founder) sign() {
	f := &fo.founding
	if fo.chain.Height() > 0 || !f.asked || !fo.model.state.known {
		return
	}
	if f.fork == nil || f.fork.Record.StateRoot != fo.model.state.root {
		at := fo.chain.Next()
		if f.fork != nil {
			at.Ballot = f.fork.Ballot + 1
		}
		self := fo.chain.Listing(fo.cfg.Self, fo.cfg.Incarnation)
		f.fork = &wire.EntryFork{Ref: at, Record: fo.chain.SettleFork(slot.Record{
			Run: fo.cfg.Rules.Run, Height: 1, Kind: slot.Fork, Prev: at.Prev, StateRoot: fo.model.state.root,
		}, chain.Turnover{Listed: []slot.Member{self}})}
		f.sent = never
		fo.pledges.open.Fork = f.fork
		fo.persist(*f.fork)
	}
	fo.sendVote()
}

func (fo *founder) sendVote() {
	f := &fo.founding
	if fo.now-f.sent < fo.cfg.Timing.Retry {
		return
	}
	f.sent = fo.now
	fo.send(wire.ForkVote{Vote: slot.Vote{Ref: f.fork.Ref, Hash: f.fork.Record.Hash()}}, fo.cfg.Self)
}

// onFounding makes the founding's certificate of the own signature.
func (fo *founder) onVote(msg wire.Message, v wire.ForkVote) error {
	f := &fo.founding
	if msg.From != fo.cfg.Self || msg.Incarnation != fo.cfg.Incarnation {
		return ErrSender
	}
	if f.fork == nil || v.Ref != f.fork.Ref || v.Hash != f.fork.Record.Hash() {
		return fmt.Errorf("%w: another founding came first", ErrStale)
	}
	sigs := map[slot.PeerID][]byte{msg.From: msg.Sig}
	fo.gossip(wire.Commit{Record: f.fork.Record, Certificate: certificate(v.Vote, sigs)}, fo.cfg.Self)
	return nil
}
