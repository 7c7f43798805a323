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
	views   *views
}

// run verifies messages until the inbox closes.
func (v *verifier) run(from *inbox) {
	for {
		q, b, ok := from.next()
		if !ok {
			return
		}
		v.check(q.from, b)
		from.done(q)
	}
}

// check hands a good message on. One message may list a thousand offers, each with a signature to
// check, so what a stranger sends of that kind goes before that: the machine would refuse it.
func (v *verifier) check(from slot.PeerID, b []byte) {
	m, err := wire.Open(b, v.runID, v.verify)
	if err == nil && wire.HasProofs(m.Body) {
		if view, _ := v.views.get(); slot.Find(view.Tip.Members, m.From) < 0 {
			v.blame.refused(from, m, ErrSender)
			return
		}
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
