package auditor

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Serve answers one stream of a peer.
func (a *Auditor) Serve(from slot.PeerID, s wire.Stream) {
	err := a.serve(from, s)
	if err != nil && !errors.Is(err, io.EOF) {
		a.cfg.Logger.Debug("an auditor's stream ended", "peer", from, "err", err)
		_ = s.Reset()
		return
	}
	_ = s.Close()
}

// serveFor is how many timeouts a question and the answer to it may be on their way, in all. On a
// slow link several seconds of contributions are in front of them; who has asked ends the stream
// when it waits no more.
const serveFor = 16

func (a *Auditor) serve(from slot.PeerID, s wire.Stream) error {
	if !a.cfg.Member(from) {
		return errors.New("the peer is no member")
	}
	var room []byte
	for {
		_ = s.SetDeadline(time.Now().Add(serveFor * a.cfg.Timeout))
		b, err := wire.ReadMessage(s, maxRequest)
		if err != nil {
			return err
		}
		q, err := ReadRequest(b)
		if err != nil {
			return err
		}
		if room, err = a.answer(from, q, wire.BeginMessage(room)); err != nil {
			return err
		}
		if err := wire.SendMessage(s, room); err != nil {
			return err
		}
	}
}

// answer appends an opening of the own contribution, or what it passes on of another one. A peer
// without a seat may be an entrant that is not known here: all of these have one share.
func (a *Auditor) answer(from slot.PeerID, q Request, to []byte) ([]byte, error) {
	if int(q.Fragment) >= len(a.cfg.Params.Fragments) || q.Range.Begin >= q.Range.End ||
		q.Range.End > a.cfg.Params.Fragments[q.Fragment] {
		return nil, errors.New("no such range")
	}
	if q.Contributor != a.cfg.Self {
		return append(to, a.passOn(from, q)...), nil
	}
	own, done := a.cfg.Own(q.Root)
	defer done()
	if own == nil {
		return to, nil
	}
	cost, err := audit.Cost(a.cfg.Params, q.Fragment, q.Range)
	if err != nil {
		return nil, err
	}
	if !a.cfg.Elector(from) {
		from = seatless
	}
	if !a.served.take(from, q.Root, cost, a.cfg.Params.Fragments[q.Fragment]) {
		return nil, errQuota
	}
	o, err := audit.OpenContribution(a.cfg.Params, q.Fragment, own, q.Range)
	if err != nil {
		return nil, err
	}
	return o.Append(slices.Grow(to, o.Size())), nil
}

// passOn asks the contributor in the place of an auditor that gets no answer. It asks only for what
// an honest contributor shows, and no more than it shows to this peer. So that no answer, or a
// false one, is the contributor's fault. It asks for those alone whose HAVE may be needed: others
// audit nothing.
func (a *Auditor) passOn(from slot.PeerID, q Request) []byte {
	if !a.cfg.Elector(from) {
		if !a.cfg.Entrant(from) {
			return nil
		}
		from = seatless
	}
	offer, planned := a.cfg.Planned(q.Contributor, q.Root)
	if !planned {
		return nil
	}
	whole := slot.Range{End: a.cfg.Params.Fragments[q.Fragment]}
	seg, err := audit.New(a.cfg.Params, audit.Statement{
		Owner: offer.Peer, Slot: offer.Slot, Fragment: q.Fragment, Range: whole, Offers: []slot.Offer{offer},
	})
	if err != nil {
		return nil
	}
	cost, err := audit.Cost(a.cfg.Params, q.Fragment, q.Range)
	if err != nil {
		return nil
	}
	switch within, wanting := a.served.takePassed(from, q.Root, cost, whole.Len(), a.cfg.Liars()); {
	case !within && !wanting:
		return nil
	case !within:
		err = errors.New("it shows too many auditors too little")
	default:
		var b []byte
		watch := a.watch()
		b, err = a.fetchChecked(q, seg)
		switch stood := watch.end(); {
		case err == nil:
			return b
		case stood: // it may have had no time
			return nil
		}
	}
	a.cfg.Logger.Warn("a contributor does not show what is to be checked", "peer", q.Contributor, "err", err)
	a.cfg.Unshown(offer.Peer, offer.Root)
	return nil
}

// fetchChecked gets an answer that is of use to an auditor: what was offered, or what proves that
// its contributor lies.
func (a *Auditor) fetchChecked(q Request, seg *audit.Segment) ([]byte, error) {
	b, err := a.fetch(q)
	if err != nil {
		return nil, err
	}
	r := wire.NewReader(b)
	o := audit.ReadOpening(r, len(b))
	if err := r.Done(); err != nil {
		return nil, err
	}
	if o.Range != q.Range {
		return nil, errOtherRange
	}
	_, err = seg.CheckContribution(0, o)
	if f := (*audit.Fault)(nil); errors.As(err, &f) && f.Proven {
		err = nil
	}
	return b, err
}

// fetch gets one answer as it is.
func (a *Auditor) fetch(q Request) (_ []byte, err error) {
	if !a.cfg.Connected(q.Contributor) {
		return nil, errors.New("there is no connection to it")
	}
	s, err := a.open(context.Background(), q.Contributor)
	if err != nil {
		return nil, err
	}
	defer func() { wire.End(s, err) }()
	_ = s.SetDeadline(time.Now().Add(a.cfg.Timeout))
	if err := errors.Join(wire.WriteMessage(s, q.Append(nil)), s.CloseWrite()); err != nil {
		return nil, err
	}
	return wire.ReadMessage(s, audit.MaxOpening(a.cfg.Params, q.Fragment, true))
}
