package limits

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	"golang.org/x/time/rate"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

const (
	// peers and addresses that are kept in mind; those beyond share one account
	maxAccounts = 1 << 16
	// times what a peer may send is what an address may: several peers live behind one
	addressAccounts = 8
	// maxAhead is how long bytes may have to wait for their turn. A peer with more on its way is
	// refused: turns that are promised far ahead would keep everybody waiting, also when the peers
	// they were promised to have long gone.
	maxAhead = 10 * time.Second
)

// Errors of Allowances.
var (
	ErrSpent = errors.New("the peer has used up what it may have relayed today")
	ErrBusy  = errors.New("more is to be relayed than the rate allows")
)

// Allowances bound what peers may have relayed. There is a rate for each peer, for each address,
// for those that are not preferred and for all together, and for a peer and an address there are
// bytes a day too. What a peer has used is known however often it comes again, and under whatever
// name it comes from its address. It is forgotten when nothing of it is left: then forgetting makes
// no difference.
type Allowances struct {
	rate, day int64 // of a peer; bytes a second, bytes
	total     *Bucket
	guests    *Bucket // those that are not preferred; half of total
	mu        struct {
		sync.Mutex
		accounts map[string]*account
		swept    time.Time
		others   *account
	}
}

// account is what one peer or address may still use.
type account struct {
	rate *Bucket
	day  *rate.Limiter // nil: no bound
}

// NewAllowances takes the bytes a second of one peer and of all, and the bytes a day of one peer.
// 0: no bound.
func NewAllowances(rate, total, day int64) *Allowances {
	a := &Allowances{rate: rate, day: day, total: NewBucket(total), guests: NewBucket((total + 1) / 2)}
	a.mu.accounts = make(map[string]*account)
	a.mu.others = a.opened(1)
	return a
}

// opened is a new account of so many peers.
func (a *Allowances) opened(peers int64) *account {
	acc := &account{rate: NewBucket(a.rate * peers)}
	if day := a.day * peers; day > 0 {
		perSecond := float64(day) / (24 * time.Hour).Seconds()
		acc.day = rate.NewLimiter(rate.Limit(perSecond), int(min(day, math.MaxInt)))
	}
	return acc
}

// Take counts n bytes of a peer at an address, and says how long they must wait for the turn of
// these. Where a day's allowance does not hold them, or too much waits already, it counts nothing.
func (a *Allowances) Take(id peer.ID, from multiaddr.Multiaddr, n int, now time.Time) (wait time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pair := a.pair(id, from, now)
	for _, acc := range pair {
		if !acc.holds(n, now) {
			return 0, ErrSpent
		}
		if acc.rate.ahead(now) > maxAhead {
			return 0, ErrBusy
		}
	}
	for _, acc := range pair {
		if acc.day != nil {
			acc.day.AllowN(now, n) // it holds them
		}
		wait = max(wait, acc.rate.Turn(n, now))
	}
	return wait, nil
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

// Spent says whether a peer has nothing left of its day.
func (a *Allowances) Spent(id peer.ID, from multiaddr.Multiaddr, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, acc := range a.pair(id, from, now) {
		if !acc.holds(1, now) {
			return true
		}
	}
	return false
}

// pair are the accounts of a peer and of its address. mu is held.
func (a *Allowances) pair(id peer.ID, from multiaddr.Multiaddr, now time.Time) []*account {
	return []*account{
		a.account("peer "+string(id), 1, now),
		a.account("address "+addr.Subscriber(from), addressAccounts, now),
	}
}

// account finds or opens one. mu is held.
func (a *Allowances) account(name string, peers int64, now time.Time) *account {
	if acc := a.mu.accounts[name]; acc != nil {
		return acc
	}
	if len(a.mu.accounts) >= maxAccounts && now.Sub(a.mu.swept) > time.Second {
		a.mu.swept = now
		for name, acc := range a.mu.accounts {
			if acc.untouched(now) {
				delete(a.mu.accounts, name)
			}
		}
	}
	if len(a.mu.accounts) >= maxAccounts {
		return a.mu.others
	}
	acc := a.opened(peers)
	a.mu.accounts[name] = acc
	return acc
}

// holds says whether n more bytes are within the day's allowance.
func (acc *account) holds(n int, now time.Time) bool {
	return acc.day == nil || acc.day.TokensAt(now) >= float64(n)
}

// untouched says whether the account is as good as a new one.
func (acc *account) untouched(now time.Time) bool {
	return (acc.day == nil || acc.day.TokensAt(now) >= float64(acc.day.Burst())) && acc.rate.ahead(now) == 0
}
