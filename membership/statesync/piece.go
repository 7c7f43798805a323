package statesync

import (
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// piece is a part of what is wanted.
type piece struct {
	size  int64
	fetch func(c *conn, dst []byte) (sent int, err error) // fetches and verifies size bytes
	store func(b []byte) error                            // keeps them; called once

	stored atomic.Bool             // true as soon as one worker is about to store it
	holder atomic.Pointer[holding] // the worker that took it last
	// the donor that held it when a second one got it; only the swarm uses it
	slow *holding
}

// holding says which donor has a piece, and since when.
type holding struct {
	peer slot.PeerID
	at   time.Time
}

// result is what a worker reports: a piece that is stored, or, at its end, why it stopped.
type result struct {
	peer slot.PeerID
	p    *piece
	sent int
	err  error
}

// exchange is what the swarm and its workers share.
type exchange struct {
	queue   chan *piece     // has room for every piece twice, so sending never blocks
	results chan result     // to the swarm
	over    <-chan struct{} // closed when the swarm no longer reads results
	idle    atomic.Int32    // workers that wait for a piece
}

// report gives a result to the swarm, unless the fetch is over.
func (x *exchange) report(r result) {
	select {
	case x.results <- r:
	case <-x.over:
	}
}
