package p2p

import (
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	allowanceDay    = 24 * time.Hour
	maxAccounts     = 1 << 16 // peers and addresses that are kept in mind; who comes beyond shares one account
	siteBits        = 56      // of an IPv6 address that one subscriber has
	addressAccounts = 8       // times what a peer may send is what an address may: several live behind one
	// relayPatience is how long bytes may have to wait for their turn. Who has more on its way is refused: turns that are promised far ahead
	// would keep everybody waiting, also when who they were promised to has long gone.
	relayPatience = 10 * time.Second
)

var (
	errRelaySpent = errors.New("the peer has used up what it may have relayed today")
	errRelayBusy  = errors.New("more is to be relayed than the rate allows")
)

// allowances bound what peers may have relayed: for each peer, for each address and for all together a rate, for a peer and an address bytes
// a day too. What one has used is known however often it comes again, and under whatever name it comes from its address. It is forgotten when
// nothing of it is left: then forgetting makes no difference.
type allowances struct {
	rate, day int64 // of a peer; bytes a second, bytes
	total     bucket
	mu        struct {
		sync.Mutex
		accounts map[string]*account
		swept    time.Time
		others   *account
	}
}

// account is what one peer or address has used.
type account struct {
	rate bucket
	day  float64 // bytes of a day's allowance; what is used comes back little by little
	used float64
	at   time.Time // of used
}

func newAllowances(rate, total, day int64) *allowances {
	a := &allowances{rate: rate, day: day}
	a.total.rate = float64(total)
	a.mu.accounts = make(map[string]*account)
	a.mu.others = a.opened(1)
	return a
}

// opened is a new account of so many peers.
func (a *allowances) opened(peers int64) *account {
	acc := &account{day: float64(a.day * peers)}
	acc.rate.rate = float64(a.rate * peers)
	return acc
}

// take counts n bytes of a peer at an address, and says how long they must wait for the turn of these. Where a day's allowance does not hold them,
// or too much waits already, it counts nothing.
func (a *allowances) take(id peer.ID, from multiaddr.Multiaddr, n int, now time.Time) (wait time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pair := a.pair(id, from, now)
	for _, acc := range pair {
		if !acc.holds(n, now) {
			return 0, errRelaySpent
		}
		if acc.rate.ahead(now) > relayPatience {
			return 0, errRelayBusy
		}
	}
	for _, acc := range pair {
		acc.used += float64(n)
		wait = max(wait, acc.rate.turn(n, now))
	}
	return wait, nil
}

// turn says how long n bytes must wait for their turn among those of all.
func (a *allowances) turn(n int, now time.Time) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total.ahead(now) > relayPatience {
		return 0, errRelayBusy
	}
	return a.total.turn(n, now), nil
}

// giveBack returns a turn that is not used.
func (a *allowances) giveBack(n int) {
	if a.total.rate > 0 {
		a.total.giveBack(n)
	}
}

// busy says whether too much waits for more to be let in.
func (a *allowances) busy(now time.Time) bool { return a.total.ahead(now) > relayPatience }

// spent says whether a peer has nothing left of its day.
func (a *allowances) spent(id peer.ID, from multiaddr.Multiaddr, now time.Time) bool {
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
func (a *allowances) pair(id peer.ID, from multiaddr.Multiaddr, now time.Time) []*account {
	return []*account{a.account("peer "+string(id), 1, now), a.account("address "+subscriberOf(from), addressAccounts, now)}
}

// account finds or opens one. mu is held.
func (a *allowances) account(name string, peers int64, now time.Time) *account {
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

// drain gives back what time has given back.
func (acc *account) drain(now time.Time) {
	if acc.day > 0 && now.After(acc.at) {
		acc.used = max(0, acc.used-acc.day*now.Sub(acc.at).Seconds()/allowanceDay.Seconds())
	}
	acc.at = now
}

// holds says whether n more bytes are within the day's allowance.
func (acc *account) holds(n int, now time.Time) bool {
	if acc.day == 0 {
		return true
	}
	acc.drain(now)
	return acc.used+float64(n) <= acc.day
}

// untouched says whether the account is as good as a new one.
func (acc *account) untouched(now time.Time) bool {
	acc.drain(now)
	return (acc.used == 0 || acc.day == 0) && acc.rate.ahead(now) == 0
}

// turn reserves n bytes where there is a rate.
func (u *bucket) turn(n int, now time.Time) time.Duration {
	if u.rate == 0 {
		return 0
	}
	return u.reserve(n, now)
}

// ahead is how much time what is granted and has not been sent will take.
func (u *bucket) ahead(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(0, u.mu.free.Sub(now))
}

// subscriberOf is the address as far as whoever has it cannot choose it: an IPv4 address, of IPv6 the /56.
func subscriberOf(a multiaddr.Multiaddr) string {
	ip := ipOf(a)
	if ip.Is6() {
		if site, err := ip.WithZone("").Prefix(siteBits); err == nil {
			return site.String()
		}
	}
	return ip.String()
}

// Site is where a peer that is connected lives, as far as it cannot choose that: its IPv4 address, of IPv6 the /56; behind a relay, the relay's. It is empty
// for a process on this machine, and "unknown" for a peer that is not connected.
func (n *Network) Site(id slot.PeerID) string {
	site := "unknown"
	for _, c := range n.host.Network().ConnsToPeer(peer.ID(id)) {
		if ipOf(c.RemoteMultiaddr()).IsLoopback() {
			return ""
		}
		site = subscriberOf(c.RemoteMultiaddr())
		if !isRelayed(c.RemoteMultiaddr()) {
			break
		}
	}
	return site
}
