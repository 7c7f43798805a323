package membership

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// accusing is how large evidence travels: ACCUSE has its hash, and peers that lack it ASK one that
// has announced it. An accusation alone moves nobody.
type accusing struct {
	asked map[slot.PeerID]question // of each accuser the newest
	idle  map[slot.PeerID]int      // how much evidence of a peer proved nothing
	// against whom this peer has a proof that is too large to be sent
	unsent map[memberKey]struct{}
}

// question is what a peer was asked for, and when.
type question struct {
	hash slot.Root
	at   time.Duration
}

// mostFalse is how much evidence that proves nothing is looked at of one peer.
const mostFalse = 3

// checkProof says whether the one message of evidence is false, as its proof says.
func checkProof(e wire.Evidence, proofs chain.ProofChecker) error {
	if proofs == nil {
		return chain.Invalid("evidence of a kind that this run has none of")
	}
	body, err := wire.ParseBody(e.Types()[0], e.First.Body)
	if err != nil {
		return chain.Invalid("evidence that cannot be read")
	}
	switch b := body.(type) {
	case wire.Segment:
		err = proofs.FalseOutcome(e.Peer, b, e.Second.Body)
	case wire.Offer:
		if b.Peer != e.Peer {
			return chain.Invalid("evidence of another peer's offer")
		}
		err = proofs.FalseOffer(b.Offer, e.Second.Body)
	default:
		return chain.Invalid("evidence without a contradiction")
	}
	if err != nil {
		return chain.Invalid("%v", err)
	}
	return nil
}

// distrust remembers a peer that a proof convicts which is too large for others. Nobody else can
// know what it has done, so no draft may drop it, and nothing that it has part in is refused for
// that. This peer gives it no part in what it leads.
func (ev *evidence) distrust(e wire.Evidence) {
	by := memberKey{e.Peer, e.Incarnation}
	if _, known := ev.accusing.unsent[by]; known || len(ev.accusing.unsent) >= maxEvicted {
		return
	}
	ev.accusing.unsent[by] = struct{}{}
	ev.reportPeer(EventSuspected, ReasonLargeProof, e.Peer,
		fmt.Sprintf("%s; the proof has %d KiB and others take no more than %d, so the run does not evict it: "+
			"this peer gives it no part in steps that it leads; operators can remove it (p2pdiloco remove)",
			contradictionText(e), len(e.Second.Body)>>10, wire.MaxProof>>10))
}

// lies says whether a proof convicts a peer here, whether or not others can know.
func (ev *evidence) lies(w memberKey) bool {
	_, unsent := ev.accusing.unsent[w]
	return unsent || ev.evicted(w)
}

// find returns the evidence against a peer.
func (ev *evidence) find(w memberKey) (e wire.Evidence, ok bool) {
	i := slices.IndexFunc(ev.evictions, func(v eviction) bool { return v.memberKey == w })
	if i < 0 {
		return e, false
	}
	return ev.evictions[i].proof, true
}

// announce tells all peers of evidence.
func (ev *evidence) announce(e wire.Evidence) {
	if e.Large() {
		ev.gossip(wire.Accuse{Peer: e.Peer, Incarnation: e.Incarnation, Hash: e.Hash()})
		return
	}
	ev.gossip(e)
}

// onAccuse asks for evidence that this peer lacks, of members whose evidence proves something.
func (ev *evidence) onAccuse(msg wire.Message, a wire.Accuse, concerns bool) error {
	by := memberKey{a.Peer, a.Incarnation}
	switch {
	case by == ev.self || ev.evicted(by):
		return ErrStale
	case !concerns || ev.checkMember(msg) != nil || ev.accusing.idle[msg.From] >= mostFalse:
		return ErrSender
	}
	was, asked := ev.accusing.asked[msg.From]
	if since := ev.now - was.at; asked && since < ev.cfg.Timing.Lost &&
		(was.hash != a.Hash || since < ev.cfg.Timing.Retry) {
		return nil // one at a time of each accuser
	}
	ev.accusing.asked[msg.From] = question{a.Hash, ev.now}
	ev.send(wire.Ask{Hash: a.Hash}, msg.From)
	return nil
}

// onAsk sends evidence to a member that lacks it.
func (ev *evidence) onAsk(msg wire.Message, a wire.Ask) error {
	if err := ev.checkMember(msg); err != nil {
		return err
	}
	i := slices.IndexFunc(ev.evictions, func(v eviction) bool {
		return v.proof.Large() && v.proof.Hash() == a.Hash
	})
	if i < 0 {
		return ErrStale
	}
	ev.send(ev.evictions[i].proof, msg.From)
	return nil
}

// onEvidence takes evidence from another peer. What proves nothing counts against that peer, which
// had to check it.
func (ev *evidence) onEvidence(msg wire.Message, e wire.Evidence, concerns bool) error {
	if e.Proven() && (ev.checkMember(msg) != nil || ev.accusing.idle[msg.From] >= mostFalse) {
		return ErrSender
	}
	err := ev.receive(e, concerns)
	if e.Proven() && errors.Is(err, chain.ErrInvalid) {
		ev.accusing.idle[msg.From]++
		ev.reportPeer(EventRefused, ReasonFalseProof, msg.From,
			"its accusation of "+e.Peer.Short()+" proves nothing: "+err.Error())
	}
	return err
}
