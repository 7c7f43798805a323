package statesync

import (
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Quota bounds what a server gives to newcomers, whom anybody can be any number of: in open runs a name costs nothing. What was used comes back
// little by little, all of it in quotaTime. The zero value bounds nothing.
type Quota struct {
	States    int                      // full states to one newcomer; a state counts as quotaFloor bytes at least
	Newcomers int                      // of one site; together they get as many states
	Exempt    func(slot.PeerID) bool   // says who is no newcomer. It must not block
	Site      func(slot.PeerID) string // is where a peer lives, as far as it cannot choose that; "" where nobody else does
}

const (
	quotaTime    = time.Hour
	quotaFloor   = 32 << 20 // bytes: what small models cost is nothing to save
	outcomesToll = 8        // outcomes count this part of their bytes: between a state and the newest slot a newcomer needs many
	maxQuotas    = 1 << 14  // newcomers and sites that are kept in mind; who comes beyond shares one account
)

// quotas keeps what newcomers have used. It is forgotten when all of it has come back: then forgetting makes no difference.
type quotas struct {
	cfg   Quota
	state float64 // bytes
	mu    struct {
		sync.Mutex
		accounts map[string]*quota
		others   *quota
		swept    time.Time
	}
}

// quota is what one newcomer or site has used.
type quota struct {
	bytes, joins float64
	limit        float64 // of newcomers: of a site their number, of one 1
	states       float64
	at           time.Time // of both
}

func newQuotas(cfg Quota, state int64) *quotas {
	q := &quotas{cfg: cfg, state: max(float64(state), quotaFloor)}
	q.mu.accounts = make(map[string]*quota)
	q.mu.others = &quota{limit: 1, states: float64(cfg.States), at: time.Now()}
	return q
}

// take counts bytes that a peer asks for. It says no, and counts nothing, where they are more than the peer, or its site, has left.
func (q *quotas) take(from slot.PeerID, bytes float64) bool {
	if bytes == 0 || q.cfg.States <= 0 || q.cfg.Exempt != nil && q.cfg.Exempt(from) {
		return true
	}
	var site string
	if q.cfg.Site != nil && q.cfg.Newcomers > 0 {
		site = q.cfg.Site(from)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.account("peer "+string(from), 1, float64(q.cfg.States))
	joins := 1 - min(own.joins, 1) // what of its joining has come back is new
	if own.bytes+bytes > own.states*q.state {
		return false
	}
	if site != "" {
		s := q.account("site "+site, float64(q.cfg.Newcomers), float64(q.cfg.Newcomers))
		if s.joins+joins > s.limit || s.bytes+bytes > s.states*q.state {
			return false
		}
		s.joins, s.bytes = s.joins+joins, s.bytes+bytes
	}
	own.joins, own.bytes = own.joins+joins, own.bytes+bytes
	return true
}

// account finds or opens one, and gives back what time has. mu is held.
func (q *quotas) account(name string, newcomers, states float64) *quota {
	now := time.Now()
	a := q.mu.accounts[name]
	if a == nil {
		if len(q.mu.accounts) >= maxQuotas && now.Sub(q.mu.swept) > time.Second {
			q.sweep(now)
		}
		if a = q.mu.others; len(q.mu.accounts) < maxQuotas {
			a = &quota{limit: newcomers, states: states, at: now}
			q.mu.accounts[name] = a
		}
	}
	a.drain(now, q.state)
	return a
}

// sweep forgets what has come back. mu is held.
func (q *quotas) sweep(now time.Time) {
	q.mu.swept = now
	for name, a := range q.mu.accounts {
		if a.drain(now, q.state); a.bytes == 0 && a.joins == 0 {
			delete(q.mu.accounts, name)
		}
	}
}

func (a *quota) drain(now time.Time, state float64) {
	part := now.Sub(a.at).Seconds() / quotaTime.Seconds()
	if part <= 0 {
		return
	}
	a.bytes = max(0, a.bytes-part*a.states*state)
	a.joins = max(0, a.joins-part*a.limit)
	a.at = now
}
