package auditor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The stream of an audit has requests in the one direction and answers, in their order, in the
// other, each with a 32-bit length in front. A request names a contribution and a range of its
// elements. The answer is its audit.Opening; an empty one says that it is not shown.

// Request asks for a range of a contribution.
type Request struct {
	Slot     uint64
	Root     slot.Root
	Fragment uint32
	Range    slot.Range
}

const maxRequest = 8 + 32 + 4 + 16

// Append appends the encoding.
func (q Request) Append(b []byte) []byte {
	b = wire.AppendU32(append(wire.AppendU64(b, q.Slot), q.Root[:]...), q.Fragment)
	return wire.AppendU64(wire.AppendU64(b, q.Range.Begin), q.Range.End)
}

// ReadRequest reads what Append wrote.
func ReadRequest(b []byte) (q Request, err error) {
	r := wire.NewReader(b)
	q.Slot = r.U64()
	copy(q.Root[:], r.Take(len(q.Root)))
	q.Fragment, q.Range = r.U32(), slot.Range{Begin: r.U64(), End: r.U64()}
	return q, r.Done()
}

// ask is one opening that an audit needs.
type ask struct {
	seg   *segment
	place int // of the contributor
	r     slot.Range
}

func (q ask) request() Request {
	return Request{q.seg.Slot, q.seg.Offers[q.place].Root, q.seg.Fragment, q.r}
}

// ask asks a contributor for openings, and returns those that it did not get.
func (j *job) ask(ctx context.Context, p slot.PeerID, list []ask) (missing []ask) {
	if p == j.cfg.Self {
		return j.askSelf(list)
	}
	if !j.cfg.Connected(p) { // it is gone, or out of reach from here
		return list
	}
	answers := make([]*audit.Opening, len(list))
	if err := j.exchange(ctx, p, list, answers); err != nil {
		j.cfg.Logger.Debug("an audit's question was not answered", "peer", p, "err", err)
	}
	for i, q := range list {
		if answers[i] == nil || !j.noteOpening(q, *answers[i]) {
			missing = append(missing, q)
		}
	}
	return missing
}

// askSelf opens what this peer has contributed.
func (j *job) askSelf(list []ask) (missing []ask) {
	for _, q := range list {
		if o := j.openSelf(q); o == nil || !j.noteOpening(q, *o) {
			missing = append(missing, q)
		}
	}
	return missing
}

// openSelf opens a range of what this peer has contributed, if it is still held.
func (a *Auditor) openSelf(q ask) *audit.Opening {
	own, done := a.cfg.Own(q.seg.Offers[q.place].Root)
	defer done()
	if own == nil {
		return nil
	}
	o, err := audit.OpenContribution(a.cfg.Params, q.seg.Fragment, own, q.r)
	if err != nil {
		return nil
	}
	o.Bytes = bytes.Clone(o.Bytes) // a proof may need them when the contribution's are gone
	return &o
}

// exchange writes all requests and reads the answers that come.
func (j *job) exchange(ctx context.Context, p slot.PeerID, list []ask, answers []*audit.Opening) (err error) {
	s, err := j.open(ctx, p)
	if err != nil {
		return err
	}
	defer func() { wire.End(s, err) }()
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	_ = s.SetDeadline(time.Now().Add(j.cfg.Timeout))
	for _, q := range list {
		if err := wire.WriteMessage(s, q.request().Append(nil)); err != nil {
			return err
		}
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	ends := time.Now().Add(j.patience(list))
	for i, q := range list {
		_ = s.SetReadDeadline(ends)
		if answers[i], err = j.readAnswer(s, q); err != nil {
			return err
		}
	}
	return nil
}

// leastSpeed is how many elements a peer that is asked must show in a second, beside the timeout:
// one that drips holds up the step.
const leastSpeed = 1 << 14

// patience is how long all answers may take.
func (a *Auditor) patience(list []ask) time.Duration {
	var elements uint64
	for _, q := range list {
		elements += q.r.Len()
	}
	return a.cfg.Timeout + time.Duration(elements)*time.Second/leastSpeed
}

// open opens a stream, at most for the time that an answer has.
func (a *Auditor) open(ctx context.Context, peer slot.PeerID) (wire.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	return a.cfg.Streams.Open(ctx, peer)
}

var errOtherRange = errors.New("another range was shown")

// readAnswer returns nil for an empty answer.
func (a *Auditor) readAnswer(s io.Reader, q ask) (*audit.Opening, error) {
	whole := q.r == q.seg.frame || q.r.Len() == uint64(a.cfg.Params.FrameElements)
	most := audit.MaxOpening(a.cfg.Params, q.seg.Fragment, whole)
	b, err := wire.ReadMessage(s, most)
	if err != nil {
		return nil, err
	}
	return openingOf(b, q)
}

// openingOf reads an answer: nil for an empty one.
func openingOf(b []byte, q ask) (*audit.Opening, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := wire.NewReader(b)
	o := audit.ReadOpening(r, len(b))
	if err := r.Done(); err != nil {
		return nil, err
	}
	if o.Range != q.r {
		return nil, errOtherRange
	}
	return &o, nil
}
