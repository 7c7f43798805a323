package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// handover is an elector's side of rule S1: a leader's plan lists whose offers the leader was given
// (BYZANTINE 4.1). An offer that this peer alone has heard is nothing that an honest leader could
// plan with, and a stranger would need no more than that to have its leader refused (a14). So this
// peer hands offers over, and counts only what the leader has been given for some time.
//
// A leader shows the electors with BEATs whose offers it has. They hand over what is missing there,
// so an honest leader, which has heard the offers by gossip, gets no copies of them. What it shows
// counts as given.
//
// What was given to another term's leader does not count: this one may lack it.
type handover struct {
	*facts
	*effects
	*height
	presence *presence
	proofs   *proofs
	roster   *roster
	hiders   *hiders
	term     termOffers
	list     passedOver // of the newest list of offers that this peer has seen
}

// termOffers is what the leader of one term knows of offers, as far as this peer sees.
type termOffers struct {
	at     slot.Ref // the position, at the first ballot of the term
	since  time.Duration
	open   bool                          // it has no plan yet, or has given it up
	shown  slot.Bitmap                   // over the members: whose offers it last said to have
	shownT time.Duration                 // when
	given  map[slot.PeerID]time.Duration // since when it has an offer of a member
	handed map[slot.PeerID]time.Duration // when this peer last handed one over
	listed map[slot.PeerID]struct{}      // that a plan of it has listed
	opened map[slot.PeerID]struct{}      // that are in a group which it opened itself
}

// passedOver is whom a list of offers lacks though its leader had been given their offers.
type passedOver struct {
	group slot.Root
	peers []slot.PeerID   // in order
	had   []time.Duration // for how long the leader had the offer of each when the list came
	// electors that an earlier list of the same leader had
	dropped []slot.PeerID
}

// turn begins a term's account, unless it is that of the followed term already.
func (ho *handover) turn() {
	at := ho.open.at(ho.open.term() * slot.Tries)
	if ho.term.given == nil || ho.term.at != at {
		ho.term = termOffers{
			at: at, since: ho.now, open: true, shownT: never, given: map[slot.PeerID]time.Duration{},
			handed: map[slot.PeerID]time.Duration{}, listed: map[slot.PeerID]struct{}{},
			opened: map[slot.PeerID]struct{}{},
		}
	}
}

// onBeat notes whose offers the leader says to have.
func (ho *handover) onBeat(b wire.Beat) error {
	if len(b.Has) == 0 || ho.tolerated() == 0 {
		return nil
	}
	if !b.Has.Fits(len(ho.chain.Members())) {
		return chain.Invalid("a BEAT with %d bytes over %d members", len(b.Has), len(ho.chain.Members()))
	}
	ho.turn()
	t := &ho.term
	t.open, t.shown, t.shownT = true, b.Has, ho.now
	for i, e := range ho.chain.Members() {
		if b.Has.Has(i) {
			ho.give(e.Peer)
		}
	}
	return nil
}

// give notes that the leader has a member's offer from now on.
func (ho *handover) give(p slot.PeerID) {
	if _, had := ho.term.given[p]; !had {
		ho.term.given[p] = ho.now
	}
}

// handOver gives the leader the offers that it does not show to have, a Retry after this peer has
// heard them, and those that it has lost since.
func (ho *handover) handOver() {
	leader := ho.open.leader(ho.open.ballot).Peer
	if !ho.elector() || ho.tolerated() == 0 || leader == ho.cfg.Self || leader == "" || !ho.chain.TakesStep() {
		return
	}
	if ho.turn(); !ho.term.open {
		return
	}
	var ps []slot.PeerID
	for i, e := range ho.chain.Members() {
		if len(ps) < wire.MaxHanded && ho.due(e, i) {
			ps = append(ps, e.Peer)
		}
	}
	if len(ps) == 0 {
		return
	}
	for _, p := range ps {
		ho.term.handed[p] = ho.now
		ho.give(p)
	}
	ho.send(ho.notYet(slot.Root{}, wire.RuleOffers, ps), leader)
}

// due says whether to hand a member's offer over now. The member stands at a place of the list of
// members.
func (ho *handover) due(e slot.Member, place int) bool {
	t, retry := &ho.term, ho.cfg.Timing.Retry
	a := ho.presence.known[ofMember(e)]
	if _, listed := t.listed[e.Peer]; listed || t.shown.Has(place) || !ho.living(e) || a == nil || a.offer == nil ||
		ho.hides(e) {
		return false
	}
	if at, handed := t.handed[e.Peer]; handed && (t.shownT <= at || ho.now-at < retry) {
		return false
	}
	return ho.now-max(a.offerAt, t.since) >= retry && ho.chain.CheckOffer(*a.offer) == nil &&
		ho.proofs.has([]slot.Offer{*a.offer})
}

// hides says whether this peer would plan without a member, since it was shown nothing of what the
// member contributes. It asks no leader for more: all leaders that saw the same leave the member
// out, and would be refused, each for a term, until all of them are dropped.
func (ho *handover) hides(e slot.Member) bool {
	if a := ho.presence.known[ofMember(e)]; a != nil && a.offer != nil && ho.open.isUnshown(*a.offer, ho.now) {
		return true
	}
	return slices.Contains(ho.hiders.passedOver(), e.Peer)
}

// living says whether an honest leader would plan with a member.
func (ho *handover) living(e slot.Member) bool {
	return ho.presence.around(ofMember(e)) && ho.roster.fits(e)
}

// notYet is a NOTYET about some members, sorted by peer. Under RuleOffers it brings their offers.
func (ho *handover) notYet(about slot.Root, rule wire.Rule, whom []slot.PeerID) wire.NotYet {
	members := ho.chain.Members()
	m := wire.NotYet{
		Ref: ho.open.at(ho.open.ballot), About: about, Rule: rule, Whom: slot.NewBitmap(len(members)),
	}
	for _, p := range whom {
		i := slot.Find(members, p)
		if i < 0 {
			continue
		}
		m.Whom.Set(i)
		a := ho.presence.known[ofMember(members[i])]
		if rule == wire.RuleOffers && len(m.Offers) < wire.MaxHanded && a != nil && a.offer != nil &&
			ho.proofs.has([]slot.Offer{*a.offer}) {
			m.Offers = append(m.Offers, *a.offer)
		}
	}
	m.Proofs = ho.proofs.of(m.Offers)
	return m
}

// saw notes whom a leader's list of offers passes over, when this peer sees it first. A list that
// the next leader takes over is the same list. Whom this leader has listed before it may leave out
// now, as one that failed in the reduction: nobody else sees the reports about it.
func (ho *handover) saw(p slot.Plan) {
	if ho.tolerated() == 0 {
		return
	}
	ho.turn()
	group := p.Group()
	if group != ho.list.group {
		ho.list = ho.missing(p)
	}
	ho.term.open = false
	for _, o := range p.Offers {
		ho.term.listed[o.Peer] = struct{}{}
		if ho.openedNow(p.Opened) {
			ho.term.opened[o.Peer] = struct{}{}
		}
	}
}

// openedNow says whether a group was opened in the term of the account. A plan may be known that is
// older.
func (ho *handover) openedNow(g slot.Opening) bool {
	at := g.Ref
	at.Ballot = at.Term() * slot.Tries
	return at == ho.term.at
}

// openedByItsLeader says whether a plan's group is not that of a leader before. One that lies can
// open a group, tell some of those in it nothing, and be silent: then they fail under the next
// leader, which goes on with it.
func openedByItsLeader(p slot.Plan) bool {
	at := p.Opened.Ref
	return at.Height == p.Height && at.Prev == p.Prev && at.Term() == p.Ref.Term()
}

// decided notes whom the leader of a step has listed in vain, in groups that it opened. Whom the
// draft of a leader before leaves out, that one has left out.
func (ho *handover) decided(v slot.Vote, r slot.Record, leader slot.PeerID) {
	at, d := v.Ref, ho.open.draft
	at.Ballot = at.Term() * slot.Tries
	if r.Kind == slot.Step && ho.tolerated() > 0 && ho.term.given != nil && ho.term.at == at &&
		d != nil && d.Hash == v.Hash && d.Grounds.QC == nil {
		ho.hiders.decided(r, leader, ho.term.opened)
	}
}

// missing compares a list with what its leader has been given a moment ago. Newcomers count as far
// as their share reaches; those that the leader has listed before, and those that showed this peer
// nothing in this slot, use it up first, as they do for the leader.
func (ho *handover) missing(p slot.Plan) passedOver {
	inTime := func(peer slot.PeerID) bool {
		at, given := ho.term.given[peer]
		return given && ho.now-at > ho.cfg.Timing.slack(int(ho.open.term()))
	}
	all, before := slices.Clone(p.Offers), ho.usedUp()
	for _, e := range ho.chain.Members() {
		if p.Place(e.Peer) < 0 && (inTime(e.Peer) || slices.Contains(before, e.Peer)) {
			all = append(all, slot.Offer{Peer: e.Peer})
		}
	}
	out := passedOver{group: p.Group()}
	for _, o := range ho.chain.WithinShare(all, before...) {
		if _, listed := ho.term.listed[o.Peer]; p.Place(o.Peer) < 0 && !listed && inTime(o.Peer) {
			out.peers = append(out.peers, o.Peer)
		}
	}
	slices.Sort(out.peers)
	for _, e := range ho.chain.Electorate() {
		if _, listed := ho.term.listed[e.Peer]; listed && p.Place(e.Peer) < 0 && ho.counts(e.Peer) {
			out.dropped = append(out.dropped, e.Peer)
		}
	}
	for _, peer := range out.peers {
		out.had = append(out.had, ho.now-ho.term.given[peer])
	}
	return out
}

// usedUp lists the members that keep a newcomer's place in the lists of this leader. The offer of
// one that was evicted is gone, for the leader as well.
func (ho *handover) usedUp() (ps []slot.PeerID) {
	for _, e := range ho.chain.Members() {
		_, listed := ho.term.listed[e.Peer]
		a := ho.presence.known[ofMember(e)]
		offered := a != nil && a.offer != nil
		if listed && (offered || ofMember(e) == ho.self) || offered && ho.open.wasUnshown(*a.offer) {
			ps = append(ps, e.Peer)
		}
	}
	return ps
}

// notGiven lists the living members that a plan passes over, in a term: a leader has a moment to
// take up what it is given, and more of it in each further term.
func (ho *handover) notGiven(p slot.Plan, term int) (ps []slot.PeerID) {
	if p.Group() != ho.list.group {
		return nil
	}
	for i, peer := range ho.list.peers {
		at := slot.Find(ho.chain.Members(), peer)
		if at >= 0 && ho.living(ho.chain.Members()[at]) && !ho.hides(ho.chain.Members()[at]) &&
			ho.list.had[i] > ho.cfg.Timing.slack(term) {
			ps = append(ps, peer)
		}
	}
	return ps
}

// dropped lists the living electors that a plan leaves out though its leader had listed them.
func (ho *handover) dropped(p slot.Plan) (ps []slot.PeerID) {
	if p.Group() != ho.list.group {
		return nil
	}
	for _, peer := range ho.list.dropped {
		if at := slot.Find(ho.chain.Electorate(), peer); at >= 0 && ho.living(ho.chain.Electorate()[at]) {
			ps = append(ps, peer)
		}
	}
	return ps
}
