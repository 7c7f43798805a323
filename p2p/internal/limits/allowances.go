package limits

import (
	"errors"
	"sync"
	"time"
)

// maxAhead is how long bytes may have to wait for their turn. With more on the way peers are
// refused: turns that are promised far ahead would keep everybody waiting, also when the peers they
// were promised to have long gone.
const maxAhead = 10 * time.Second

// ErrBusy says that more is to be relayed than the rate allows.
var ErrBusy = errors.New("more is to be relayed than the rate allows")

// Allowances bound what peers may have relayed: there is a rate for all together, and half of it
// for those that are not preferred.
type Allowances struct {
	total  *Bucket
	guests *Bucket // those that are not preferred; half of total
	mu     sync.Mutex
}

// NewAllowances takes the bytes a second of all. 0: no bound.
func NewAllowances(total int64) *Allowances {
	return &Allowances{total: NewBucket(total), guests: NewBucket((total + 1) / 2)}
}

// Turn says how long n bytes must wait for their turn among those of all.
func (a *Allowances) Turn(n int, now time.Time) (time.Duration, error) {
	return a.turn(a.total, n, now)
}

// GuestTurn says how long n bytes of a peer that is not preferred wait before Turn. Such peers have
// half of the total rate, and what waits for that is in nobody else's way.
func (a *Allowances) GuestTurn(n int, now time.Time) (time.Duration, error) {
	return a.turn(a.guests, n, now)
}

func (a *Allowances) turn(b *Bucket, n int, now time.Time) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.ahead(now) > maxAhead {
		return 0, ErrBusy
	}
	return b.Turn(n, now), nil
}

// GiveBack returns a turn that is not used.
func (a *Allowances) GiveBack(n int) { a.total.GiveBack(n) }

// GiveGuestBack returns a turn of GuestTurn that is not used.
func (a *Allowances) GiveGuestBack(n int) { a.guests.GiveBack(n) }

// Ahead is how long what waits already will take.
func (a *Allowances) Ahead(now time.Time) time.Duration { return a.total.ahead(now) }

// Busy says whether too much waits for more of a peer to be let in.
func (a *Allowances) Busy(guest bool, now time.Time) bool {
	return a.Ahead(now) > maxAhead || guest && a.guests.ahead(now) > maxAhead
}
