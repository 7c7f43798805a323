package gossip

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"
)

// A neighbour may send a few messages that no honest peer sends: this many at once, and this many a
// second. Above that, all that it passes on is ignored for a while, so that no time is spent on its
// signatures, some 100 µs each.
const (
	offencesRate  = 2
	offencesBurst = 128
	muteFor       = time.Minute
	maxOffenders  = 4096 // offenders that are remembered
)

// offenders are the neighbours that have sent messages that no honest peer sends.
type offenders struct {
	mu struct {
		sync.Mutex
		by *simplelru.LRU[peer.ID, *offender]
	}
}

type offender struct {
	left  *rate.Limiter
	muted time.Time // until then
}

func newOffenders() *offenders {
	o := &offenders{}
	o.mu.by, _ = simplelru.NewLRU[peer.ID, *offender](maxOffenders, nil) // fails for a size of 0
	return o
}

// note counts an offence. It returns whether that is one too many.
func (o *offenders) note(id peer.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, known := o.mu.by.Get(id)
	if !known {
		of = &offender{left: rate.NewLimiter(offencesRate, offencesBurst)}
		o.mu.by.Add(id, of)
	}
	if of.left.AllowN(now, 1) {
		return false
	}
	fresh := !of.muted.After(now)
	of.muted = now.Add(muteFor)
	return fresh
}

// muted says whether all messages of a neighbour are ignored.
func (o *offenders) muted(id peer.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, known := o.mu.by.Peek(id)
	return known && of.muted.After(now)
}
