package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// audits has the outcome of each step that its leader was free to draft checked by samples, before
// this elector gives HAVE (BYZANTINE 4.1). Nobody knows which samples it takes. A record that comes
// with a QC is taken without: f+1 honest electors have checked it, and a contributor that died
// since must not stop the height.
//
// A sample that differs makes a proof against the owner: it is evicted, and its segments move like
// those of a dead owner. A sample that nobody shows proves nothing: the elector gives no HAVE, and
// tells all electors (LOST), so that the next leader leaves the contribution out.
type audits struct {
	*facts
	*effects
	*height
	presence *presence
	evidence *evidence
	proofs   *proofs
	hiders   *hiders
}

// audit is how far the worker is with the samples of one record. Records with equal outcomes may
// differ: an outcome does not say whose the contributions are.
type audit struct {
	draft   wire.Draft // with owners whose signatures were checked
	asked   time.Duration
	passed  bool
	lie     bool          // a segment is false
	sure    bool          // a proof of that holds, which others do not take
	unshown []slot.PeerID // contributors of which no sample was to be had
}

// needed says whether samples of a draft are to be checked. Those to whom its record gives a seat
// only hold the outcome: a contributor that shows them nothing keeps nobody from a seat.
func (au *audits) needed(d wire.Draft) bool {
	return au.elector() && au.chain.Rules().Audits() && d.Record.Kind == slot.Step && d.Grounds.QC == nil
}

// look returns what is known of the outcome of a draft. If nothing speaks for it yet, it has the
// worker find out.
func (au *audits) look(d wire.Draft) *audit {
	open := au.open
	if open.audits == nil {
		open.audits = map[slot.Root]*audit{}
	}
	a := open.audits[d.Hash]
	if a == nil {
		a = &audit{draft: d, asked: never}
		open.audits[d.Hash] = a
	}
	if !a.passed && au.now-a.asked >= 4*au.cfg.Timing.Retry {
		a.asked = au.now
		au.work(WorkAudit{
			Draft: slot.DraftOf(d.Record, d.Ballot), Record: d.Hash, Owners: d.Owners.Peers(), Quorum: au.quorum(),
		})
	}
	return a
}

// auditors are the electors, without this peer, where they audit.
func (au *audits) auditors() []slot.PeerID {
	if !au.chain.Rules().Audits() {
		return nil
	}
	return without(peersOf(au.chain.Electorate()), au.cfg.Self)
}

// quorum is how many electors share the samples of a segment.
func (au *audits) quorum() int { return len(au.chain.Electorate()) - au.tolerated() }

// objection says why HAVE is not given for a draft because of its audit; "" where it is.
func (au *audits) objection(d wire.Draft) string {
	if !au.needed(d) {
		return ""
	}
	for _, s := range d.Owners.Stated {
		if au.evidence.evicted(memberKey{s.Peer, s.Incarnation}) {
			return fmt.Sprintf("the outcome has a segment of %s, who was proven to lie", s.Peer.Short())
		}
	}
	for _, o := range d.Record.Contributions {
		if au.convicted(o.Peer) {
			return fmt.Sprintf("it has a contribution of %s, who was proven to lie", o.Peer.Short())
		}
	}
	switch a := au.look(d); {
	case a.passed:
		return ""
	case a.lie:
		return "its outcome is not what the contributions give, as this peer found, and has no proof that others take"
	case len(a.unshown) > 0:
		return "nobody shows what it wants to check of the contributions of " + shortIDs(a.unshown)
	}
	return waitsForAudit
}

// waitsForAudit is no fault of the leader: nobody is told.
const waitsForAudit = "its outcome is being checked"

// report takes in what the worker found.
func (au *audits) report(r ReportAudited) {
	a := au.open.audits[r.Record]
	if a == nil || r.Height != au.open.ref.Height || r.Prev != au.open.ref.Prev {
		return
	}
	for _, f := range r.False {
		a.sure = au.convictOwner(a.draft, f) || a.sure
	}
	a.lie = a.sure || len(r.False) > 0 // the samples of a later audit may miss what is known
	a.passed, a.unshown = len(r.Unshown) == 0 && !a.lie, r.Unshown
	for _, o := range a.draft.Record.Contributions {
		if slices.Contains(r.Unshown, o.Peer) {
			au.notShown(o)
			if au.presence.connected[o.Peer] { // else it may be no fault of its own
				au.hiders.note(o.Peer)
			}
		}
	}
}

// notShown takes in that this peer got nothing of a contribution, and tells the electors.
func (au *audits) notShown(o slot.Offer) {
	if au.elector() && o.Peer != au.cfg.Self && au.noteHiding(o, au.cfg.Self) {
		au.send(au.lost(o), without(peersOf(au.chain.Electorate()), au.cfg.Self)...)
	}
}

func (au *audits) lost(o slot.Offer) wire.Lost {
	return wire.Lost{
		Ref: au.open.position(au.open.ballot), Peer: o.Peer, Reason: wire.LostSamples, Round: slot.Hash(o.Append(nil)),
	}
}

// noteHiding notes that an elector is shown nothing of what an offer is about, and says whether
// that is news. A peer that was started again may train the same, and offers it with another
// number. No more electors hide than may lie: so of an elector's word that many count. Without that
// one liar could name them all.
func (au *audits) noteHiding(o slot.Offer, from slot.PeerID) bool {
	if contains(au.open.hidden[o], from) {
		return false
	}
	elects := func(p slot.PeerID) bool { return slot.Find(au.chain.Electorate(), p) >= 0 }
	named := map[slot.PeerID]struct{}{}
	for other, by := range au.open.hidden {
		if contains(by, from) && elects(other.Peer) && other.Peer != o.Peer {
			named[other.Peer] = struct{}{}
		}
	}
	if f := au.tolerated(); from != au.cfg.Self && f > 0 && elects(o.Peer) && len(named) >= f {
		return false
	}
	if au.open.hidden == nil {
		au.open.hidden = map[slot.Offer]map[slot.PeerID]struct{}{}
	}
	if au.open.hidden[o] == nil {
		au.open.hidden[o] = map[slot.PeerID]struct{}{}
	}
	au.open.hidden[o][from] = struct{}{}
	return true
}

// onLost takes an elector's word that a contributor shows it nothing. It moves nothing by itself: a
// leader that fails resigns, and the next one goes by it.
func (au *audits) onLost(msg wire.Message, lost wire.Lost) error {
	if err := au.checkElector(msg); err != nil {
		return err
	}
	if lost.Peer == msg.From {
		return chain.Invalid("a report that %s shows no samples", lost.Peer.Short())
	}
	for _, known := range au.proofs.known[lost.Peer] {
		if slot.Hash(known.Append(nil)) == lost.Round {
			au.noteHiding(known.Offer, msg.From)
			return nil
		}
	}
	return fmt.Errorf("%w: the offer that it is about", ErrLacks)
}

// repeatTo tells the leader of a later term what this peer has told the electors at this height.
func (au *audits) repeatTo(leader slot.PeerID) {
	for o, from := range au.open.hidden {
		if contains(from, au.cfg.Self) && leader != au.cfg.Self {
			au.send(au.lost(o), leader)
		}
	}
}

// convictOwner makes evidence of a proof against the owner of a segment of a draft.
func (au *audits) convictOwner(d wire.Draft, f FalseSegment) (unsent bool) {
	if f.Segment < 0 || f.Segment >= len(d.Owners.Stated) {
		return false
	}
	s := d.Owners.Stated[f.Segment]
	body := d.Owners.Segment(f.Segment, d.Ref, d.Record)
	return au.convict(wire.Evidence{
		Kind: wire.KindFalseOutcome, Peer: s.Peer, Incarnation: s.Incarnation,
		First: wire.SignedBody{Body: body.Append(nil), Sig: s.Sig}, Second: wire.SignedBody{Body: f.Proof},
	})
}

// convictContributor makes evidence of a proof against an offer to the open slot.
func (au *audits) convictContributor(r ReportFalseOffer) {
	for _, known := range au.proofs.known[r.Offer.Peer] {
		if known.Offer != r.Offer {
			continue
		}
		au.convict(wire.Evidence{
			Kind: wire.KindFalseOffer, Peer: r.Offer.Peer, Incarnation: known.proof.Incarnation,
			First:  wire.SignedBody{Body: r.Offer.Append(nil), Sig: known.proof.Sig},
			Second: wire.SignedBody{Body: r.Proof},
		})
		return
	}
}

// convict evicts a peer if the proof holds: the worker may have been shown wrong bytes. unsent says
// that it holds, and is too large for others.
func (au *audits) convict(e wire.Evidence) (unsent bool) {
	if by := (memberKey{e.Peer, e.Incarnation}); by == au.self || au.evidence.evicted(by) {
		return false
	}
	if err := checkEvidence(e, au.cfg.Rules, au.cfg.Verify); err != nil {
		au.reportPeer(EventRefused, ReasonFalseProof, e.Peer, "a proof against it does not hold: "+err.Error())
		return false
	}
	if !e.Fits() {
		au.evidence.distrust(e)
		return true
	}
	au.evidence.evict(e, true)
	return false
}

// checkStated says whether each segment of a draft that is audited is stated by a member that may
// own it. It checks the signatures here, since a draft may have come without the offers that they
// are about.
func (au *audits) checkStated(d wire.Draft) error {
	if !au.needed(d) {
		return nil
	}
	if err := d.Owners.Check(d.Ref, d.Record, au.cfg.Rules.Run, au.cfg.Verify); err != nil {
		return chain.Invalid("%v", err)
	}
	members, pieces, fewest := au.chain.Members(), []slot.Piece{}, len(d.Record.Contributions)
	for i, s := range d.Owners.Stated {
		if _, in := chain.FindMember(members, s.Peer, s.Incarnation); !in {
			return chain.Invalid("a segment that %s states, who is no member", s.Peer.Short())
		}
		stated := d.Record.Segments[i]
		pieces = append(pieces, slot.Piece{Range: stated.Range, Owner: s.Peer})
		fewest = min(fewest, stated.Contributors.Count())
	}
	return au.chain.CheckOwners(pieces, offerers(d.Record.Contributions), fewest)
}

// convicted says whether a member is proven to lie, by a proof that others take.
func (au *audits) convicted(p slot.PeerID) bool { return au.member(p, au.evidence.evicted) }

// lies says whether a member is proven to lie, whether or not others can know.
func (au *audits) lies(p slot.PeerID) bool { return au.member(p, au.evidence.lies) }

func (au *audits) member(p slot.PeerID, is func(memberKey) bool) bool {
	i := slot.Find(au.chain.Members(), p)
	return i >= 0 && is(ofMember(au.chain.Members()[i]))
}
