package statesync

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Quota bounds what a server gives to newcomers. In open runs a name costs nothing, so anybody can
// appear as any number of newcomers. What was used comes back little by little, all of it in
// quotaTime. The zero value bounds nothing.
type Quota struct {
	// States is how many full states one newcomer gets. A state counts as quotaFloor bytes at
	// least.
	States int
	// Newcomers is how many newcomers of one site are served. Together they get as many states.
	Newcomers int
	// Exempt tells which peers are no newcomers. It must not block.
	Exempt func(slot.PeerID) bool
	// Site names the place that a peer connects from, as far as the peer cannot choose it. "" means
	// that the peer shares no site with others.
	Site func(slot.PeerID) string
}

const (
	quotaTime  = time.Hour
	quotaFloor = 32 << 20 // bytes; small models cost too little to save on
	// The bytes of outcomes count only an eighth, because a newcomer needs many outcomes between a
	// state and the newest slot.
	outcomesToll = 8
	// maxQuotas bounds the number of accounts. All newcomers and sites beyond it share one account.
	maxQuotas = 1 << 14
)

// quotas has an account for each newcomer and site. An account is dropped when all of it has come
// back, because that makes no difference then.
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
	limit        float64 // of newcomers: 1 for a newcomer, their allowed number for a site
	states       float64
	at           time.Time // when bytes and joins had these values
}

func newQuotas(cfg Quota, state int64) *quotas {
	q := &quotas{cfg: cfg, state: max(float64(state), quotaFloor)}
	q.mu.accounts = make(map[string]*quota)
	q.mu.others = &quota{limit: 1, states: float64(cfg.States), at: time.Now()}
	return q
}

// charge charges a peer with the bytes that it asks for. If the peer, or its site, has less left,
// it charges nothing and returns false.
func (q *quotas) charge(from slot.PeerID, bytes float64) bool {
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
	joins := 1 - min(own.joins, 1) // the part of its joining that has come back counts again
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

// account finds or opens an account, and gives back what the passing of time has earned. mu is
// held.
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

// sweep drops the accounts that have got everything back. mu is held.
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

// pacer spreads the bytes of all streams over time.
type pacer struct {
	// bytes to send at once: few at low rates, so that many streams take turns within a second
	slice   int
	limiter *rate.Limiter
}

// newPacer makes a pacer of so many bytes a second; 0 means no limit.
func newPacer(bytesPerSecond int64) pacer {
	const least, most, turns = 4 << 10, 256 << 10, 64
	if bytesPerSecond <= 0 {
		return pacer{most, rate.NewLimiter(rate.Inf, most)}
	}
	slice := int(min(max(bytesPerSecond/turns, least), most))
	return pacer{slice, rate.NewLimiter(rate.Limit(bytesPerSecond), slice)}
}

// wait returns when n bytes, a slice at most, may leave, or with the error of ctx. They use up
// their time as often as times says.
func (p pacer) wait(ctx context.Context, n, times int) error {
	for range times {
		if err := p.limiter.WaitN(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
