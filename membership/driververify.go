package membership

import (
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// verifier checks the signatures of messages and hands the good ones to the loop. Several
// goroutines use it.
type verifier struct {
	runID   slot.Root
	self    slot.PeerID
	inc     slot.Incarnation
	verify  slot.Verifier
	inputs  *inputs
	answers *answers
	blame   *blame
}

// run verifies messages until the inbox closes.
func (v *verifier) run(from *inbox) {
	for {
		q, b, ok := from.take()
		if !ok {
			return
		}
		v.check(q.from, b)
		from.done(q)
	}
}

func (v *verifier) check(from slot.PeerID, b []byte) {
	m, err := wire.Open(b, v.runID, v.verify)
	if err == nil {
		err = wire.CheckProofs(m.Body, v.runID, v.verify)
	}
	switch {
	case err != nil:
		v.blame.bad(from, err)
	case m.From == v.self && m.Incarnation == v.inc: // an own announcement that came back
	case m.From == v.self && from == m.From:
		v.inputs.report(ReportClone{m})
	case m.From == v.self:
		v.blame.clone(from, m.Incarnation)
	case m.From != from:
		v.blame.bad(from, fmt.Errorf("%w: it is %s's", wire.ErrRelayed, m.From))
	case !v.answers.allow(from, m.Body, time.Now()):
		v.blame.refused(from, m, errTooManyQuestions)
	default:
		v.inputs.message(from, m)
	}
}
