package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// hearing keeps whether this peer hears the others at all. A peer whose own link was down, or that
// did not run for a moment, has heard nobody. That says nothing of the others: when the link is
// back, they get the full time to be heard before this peer takes them for lost.
type hearing struct {
	// fewer electors than decide a record were heard in the last two thirds of Timing.Lost
	deaf      bool
	deafSince time.Duration // since when it is or was so, the last time
	over      time.Duration // when that was over
	watched   time.Duration // when this peer looked last
	stoppedAt time.Duration // when it looked last before it did not run
	resumed   time.Duration // since when it runs again
}

// noticeStop looks at whom this peer hears if it has not looked for long: it did not run.
func (pr *presence) noticeStop() {
	if pr.stopped() {
		pr.watchHearing()
	}
}

func (pr *presence) stopped() bool {
	h := pr.hearing
	return h.watched != never && pr.now-h.watched > pr.cfg.Timing.Lost/3
}

// watchHearing notes when this peer begins to hear too few of the others, and when that is over. A
// peer that was stopped has heard nobody since it looked last, even where it decides alone.
func (pr *presence) watchHearing() {
	h := &pr.hearing
	if pr.stopped() {
		h.stoppedAt, h.resumed = h.watched, pr.now
		if !h.deaf {
			h.deaf, h.deafSince = true, h.watched
		}
	}
	h.watched = pr.now
	hears := pr.cfg.Rules.Quorum(pr.chain.Electorate(), func(e slot.Member) bool {
		a := pr.known[ofMember(e)]
		return ofMember(e) == pr.self || a != nil && pr.now-a.heard <= 2*pr.cfg.Timing.Lost/3
	})
	switch {
	case hears && h.deaf:
		h.deaf, h.over = false, pr.now
	case !hears && !h.deaf:
		h.deaf, h.deafSince = true, pr.now
	}
}

// silent says whether a member that was heard before was not heard for Timing.Lost while this peer
// heard the others. The time in which it heard too few of them counts against nobody who was heard
// shortly before. It decides only who is named lost: waiting for a member ends earlier (around,
// missing).
func (pr *presence) silent(w memberKey) bool {
	if pr.heardLately(w) {
		return false
	}
	a, h := pr.known[w], pr.hearing
	if a == nil || h.deafSince == never || h.deafSince-a.heard > pr.cfg.Timing.Lost {
		return true
	}
	pause := pr.cfg.Timing.Lost
	if pr.gone(a) { // the others' next ALIVEs say that they reach it, if they do
		pause = min(pause, 2*pr.cfg.Timing.Alive)
	}
	return !h.deaf && pr.now-h.over > pause
}

// missing says whether no part in a slot is to be expected of a member: it is not around, and was
// not before this peer was stopped just now. A leader that goes on handles what the others have
// sent meanwhile one by one, and must not leave out those whose messages it has not come to.
func (pr *presence) missing(w memberKey) bool {
	a, h := pr.known[w], pr.hearing
	if pr.around(w) {
		return false
	}
	return a == nil || pr.gone(a) || h.resumed == never || h.stoppedAt-a.heard > pr.cfg.Timing.Lost ||
		pr.now-h.resumed > 2*pr.cfg.Timing.Alive
}
