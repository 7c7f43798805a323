package gossip

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// A neighbour may send a few messages that no honest peer sends: this many at once, and this many a
// second. Above that, all that it passes on is ignored for a while, so that no time is spent on its
// signatures, some 100 µs each.
const (
	offencesRate  = 2.0
	offencesBurst = 128.0
	muteFor       = time.Minute
	maxOffenders  = 4096 // offenders that are remembered
)

// offenders are the neighbours that have sent messages that no honest peer sends.
type offenders struct {
	mu struct {
		sync.Mutex
		by map[peer.ID]*offender
	}
}

type offender struct {
	left  bucket
	muted time.Time // until then
}

func newOffenders() *offenders {
	o := &offenders{}
	o.mu.by = make(map[peer.ID]*offender)
	return o
}

// note counts an offence. It returns whether that is one too many.
func (o *offenders) note(id peer.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.mu.by[id]
	if of == nil {
		if len(o.mu.by) >= maxOffenders {
			o.makeRoom(now)
		}
		of = &offender{left: bucket{offencesBurst, now}}
		o.mu.by[id] = of
	}
	if of.left.has(now, offencesRate, offencesBurst, 1) {
		of.left.tokens--
		return false
	}
	fresh := !of.muted.After(now)
	of.muted = now.Add(muteFor)
	return fresh
}

// makeRoom forgets neighbours that have been good for long, or else any eighth of them. mu is held.
func (o *offenders) makeRoom(now time.Time) {
	for id, of := range o.mu.by {
		if of.left.has(now, offencesRate, offencesBurst, offencesBurst) && !of.muted.After(now) {
			delete(o.mu.by, id)
		}
	}
	for id := range o.mu.by {
		if len(o.mu.by) <= maxOffenders*7/8 {
			return
		}
		delete(o.mu.by, id)
	}
}

// muted says whether all messages of a neighbour are ignored.
func (o *offenders) muted(id peer.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.mu.by[id]
	return of != nil && of.muted.After(now)
}
