package auditor

import (
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
		if room, err = a.answer(q, wire.BeginMessage(room)); err != nil {
			return err
		}
		if err := wire.SendMessage(s, room); err != nil {
			return err
		}
	}
}

// answer appends an opening of the own contribution.
func (a *Auditor) answer(q Request, to []byte) ([]byte, error) {
	if int(q.Fragment) >= len(a.cfg.Params.Fragments) || q.Range.Begin >= q.Range.End ||
		q.Range.End > a.cfg.Params.Fragments[q.Fragment] {
		return nil, errors.New("no such range")
	}
	own, done := a.cfg.Own(q.Root)
	defer done()
	if own == nil {
		return to, nil
	}
	o, err := audit.OpenContribution(a.cfg.Params, q.Fragment, own, q.Range)
	if err != nil {
		return nil, err
	}
	return o.Append(slices.Grow(to, o.Size())), nil
}
