package gossip

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// What no honest neighbour sends, each may send a little of: so many messages at once, so many a second. Then nothing that it passes on is
// looked at for a while, signatures included, of which each takes some 100 µs.
const (
	offencesRate  = 2.0
	offencesBurst = 128.0
	muteFor       = time.Minute
	maxOffenders  = 4096 // that are kept in mind
)

// offenders are the neighbours that have sent what no honest one does.
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

// note counts an offence, and says whether it is the one too many.
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

// makeRoom forgets who has been good for long, or else any eighth of them. mu is held.
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

// muted says whether nothing of a neighbour is looked at.
func (o *offenders) muted(id peer.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.mu.by[id]
	return of != nil && of.muted.After(now)
}
