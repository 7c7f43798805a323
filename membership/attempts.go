package membership

import "time"

// attempts numbers the attempts at a fork, or at the founding. A peer signs one record an attempt,
// with ever higher numbers, so one that drafts takes a number above those that it has heard of. A
// liar that names high ones must not use the numbers up: nobody could fork then, and where they
// began anew from 0 an honest peer would contradict itself. So numbers are far from the largest
// that there is, a peer is told of no more than so many in the pause between two attempts, and
// takes part in none that is further ahead. Honest peers that a liar has led apart come together
// again once it is silent: each hears the numbers of the other.
type attempts struct {
	next  uint32 // the lowest number that no message has named here
	room  uint32 // by how much messages may raise it until the pause is over
	until time.Duration
}

const (
	maxAttempts    = 1 << 31
	maxAttemptStep = 1 << 16
)

// hear takes in the number of a draft, and says whether this peer may sign it.
func (a *attempts) hear(n uint32, now, pause time.Duration) bool {
	if n >= maxAttempts {
		return false
	}
	if now >= a.until {
		a.room, a.until = maxAttemptStep, now+pause
	}
	if n >= a.next {
		up := min(n-a.next+1, a.room)
		a.next, a.room = a.next+up, a.room-up
	}
	return n < a.next || n-a.next < maxAttemptStep
}
