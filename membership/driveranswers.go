package membership

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// One short question is answered with a megabyte of records, each signed anew, and anybody may ask.
// So each asker has a bucket of answers, and all questions for many records share one more. A flood
// of those costs the same under one name and under many. An honest peer that catches up asks once a
// round trip.
const (
	answersPerPeer = 32 // a second
	answersBurst   = 256
	answersInAll   = 256 // a second
	answersMost    = 2048
	answersOfMany  = 8                   // that an answer of many records counts as
	answersPeers   = 4 * slot.MaxMembers // askers remembered
)

var errTooManyQuestions = errors.New("asks for records faster than they are given")

// recordsWanted tells whether a body may be answered with certified records, and whether with many.
func recordsWanted(b wire.Body) (some, many bool) {
	switch b.(type) {
	case wire.Need:
		return true, true
	case wire.Promise, wire.Retry, wire.Propose: // one, if their height is decided
		return true, false
	}
	return false, false
}

// answers counts what each asker may still have.
type answers struct {
	mu struct {
		sync.Mutex
		all *rate.Limiter
		by  map[slot.PeerID]*rate.Limiter
	}
}

func newAnswers() *answers {
	a := &answers{}
	a.mu.by = map[slot.PeerID]*rate.Limiter{}
	a.mu.all = rate.NewLimiter(answersInAll, answersMost)
	return a
}

// allow tells whether a peer's message may be answered, and takes the answer out of the peer's
// bucket. An answer of many records comes out of the common bucket, too. An empty common bucket
// does not hold up single answers: otherwise a flood could keep the members from deciding anything.
func (a *answers) allow(to slot.PeerID, b wire.Body, now time.Time) bool {
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
		one = rate.NewLimiter(answersPerPeer, answersBurst)
		a.mu.by[to] = one
	}
	if !many {
		return one.AllowN(now, 1)
	}
	return a.mu.all.TokensAt(now) >= answersOfMany && one.AllowN(now, answersOfMany) &&
		a.mu.all.AllowN(now, answersOfMany)
}
