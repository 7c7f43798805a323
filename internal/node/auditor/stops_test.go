package auditor

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// silence has the contributor leave open streams unanswered until it ends.
func (h *house) silence() (end func()) {
	var spoken atomic.Bool
	h.change = func(s wire.Stream) wire.Stream {
		if spoken.Load() {
			return s
		}
		return nil
	}
	return func() { spoken.Store(true) }
}

// stopIn has an auditor's process stand still for a minute, after a while.
func stopIn(a *Auditor, wait time.Duration, then func()) {
	var stood atomic.Int64
	a.now = func() time.Time { return time.Now().Add(time.Duration(stood.Load())) }
	time.AfterFunc(wait, func() { stood.Store(int64(time.Minute)); then() })
}

// A process that was stopped while it waited finds all deadlines passed when it goes on. It blames
// no contributor for that, be it as an auditor, before the draft or after, or as a leader that
// passes on. A leader would leave them all out, and decide alone.
func TestAStopBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(t, h.reduce(false))
		stopIn(e.Auditor, e.cfg.Timeout/2, h.silence())
		if got, _, err := e.Audit(t.Context(), e.draft()); !errors.Is(err, errStoodStill) || len(got.Unshown) > 0 {
			t.Errorf("in an audit: %v is missing, %v", got.Unshown, err)
		}
		if got := e.audit(t); len(got.Unshown) > 0 {
			t.Errorf("the next audit: %v is missing", got.Unshown)
		}
		e.Close()

		h = newHouse(t)
		e = h.elector(t, h.reduce(false))
		stopIn(e.Auditor, e.cfg.Timeout/2, h.silence())
		e.sample(t)
		synctest.Wait()
		if got, _, err := e.Audit(t.Context(), e.draft()); err != nil || len(got.Unshown) > 0 {
			t.Errorf("of early samples: %v is missing, %v", got.Unshown, err)
		}
		e.Close()

		h = newHouse(t)
		stopIn(h.leader, h.leader.cfg.Timeout/2, h.silence())
		if h.shows(t, "e1", h.request()) || len(h.unshown) > 0 {
			t.Errorf("of what is passed on, %v is missing", h.unshown)
		}
		if h.silence(); h.shows(t, "e2", h.request()) || len(h.unshown) != 1 {
			t.Error("without a stop nothing is missing")
		}
	})
}

// A stop before the draft leaves a lie that is found later as it is.
func TestAStopHidesNoLie(t *testing.T) {
	j := newAudit(nil, membership.WorkAudit{})
	j.unshown["c"] = true
	j.found = []membership.FalseSegment{{}}
	if j.forgive() || len(j.report().Unshown) > 0 || len(j.report().False) != 1 {
		t.Error("what was found is not reported")
	}
}

// A contributor that was too slow for one audit is asked by the next one. Without that, nobody asks
// it again in this slot, and a run that needs its contribution waits for ever.
func TestWhoWasSlowIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(t, h.reduce(false))
		speak := h.silence()
		e.sample(t)
		synctest.Wait()
		if got := e.audit(t); len(got.Unshown) != 1 {
			t.Errorf("while it is silent %v is missing", got.Unshown)
		}
		speak()
		if got := e.audit(t); len(got.Unshown) > 0 {
			t.Errorf("when it answers %v is missing", got.Unshown)
		}
		e.Close()
	})
}
