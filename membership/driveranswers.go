package membership

import (
	"errors"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// One short question is answered with up to commitsAtOnce records, each signed anew and up to a megabyte long, and anybody may
// ask. So each asker has a bucket of answers, and all questions for many records together have one: what a flood of those can
// cost is the same however many names it comes under. An honest peer that catches up asks once a round trip.
const (
	answersPerPeer = 32.0 // a second
	answersBurst   = 256.0
	answersInAll   = 256.0 // a second
	answersMost    = 2048.0
	answersPeers   = 4 * slot.MaxMembers // askers remembered
)

var errTooManyQuestions = errors.New("asks for records faster than they are given")

// recordsWanted says whether a body may be answered with certified records, and whether with many.
func recordsWanted(b Body) (some, many bool) {
	switch b.(type) {
	case Need:
		return true, true
	case Prepare, Propose: // one, if their height is decided
		return true, false
	}
	return false, false
}

// answers counts what each asker may still have.
type answers struct {
	mu struct {
		sync.Mutex
		all bucket
		by  map[slot.PeerID]bucket
	}
}

// bucket holds tokens; at is when it last held that many.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) fill(now time.Time, rate, most float64) {
	b.tokens, b.at = min(most, b.tokens+max(0, now.Sub(b.at).Seconds())*rate), now
}

func newAnswers() *answers {
	a := &answers{}
	a.mu.by = map[slot.PeerID]bucket{}
	a.mu.all = bucket{tokens: answersMost}
	return a
}

// allow says whether a peer's message may be answered, and takes the answer out of its bucket; one of many records out of the
// common one, too. That one must not hold up single answers: whoever emptied it could keep the members from deciding anything.
func (a *answers) allow(to slot.PeerID, b Body, now time.Time) bool {
	some, many := recordsWanted(b)
	if !some {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	one, known := a.mu.by[to]
	if !known {
		if len(a.mu.by) >= answersPeers {
			clear(a.mu.by) // the common bucket still holds
		}
		one = bucket{answersBurst, now}
	}
	one.fill(now, answersPerPeer, answersBurst)
	a.mu.all.fill(now, answersInAll, answersMost)
	ok := one.tokens >= 1 && (!many || a.mu.all.tokens >= 1)
	if ok {
		one.tokens--
	}
	if ok && many {
		a.mu.all.tokens--
	}
	a.mu.by[to] = one
	return ok
}
