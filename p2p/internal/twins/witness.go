package twins

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	lookEvery = 3 * time.Second // between looks at the connections
	// of a connection that is looked at: two peers that dial each other at once have two for a
	// moment
	settledAge   = 2 * time.Second
	maxConns     = 6  // of one peer that are asked, the newest
	maxStrangers = 16 // that are asked at once
	// between two rounds of questions to one peer, which takes twice as long each time
	leastPause, mostPause = lookEvery, 2 * time.Minute
)

// witness is what this process knows of the peers that have several connections to it.
type witness struct {
	mu struct {
		sync.Mutex
		records   map[peer.ID]*record
		strangers int // that are being asked
	}
}

// record is what is known of one peer.
type record struct {
	asked    map[string]bool   // connections, by ID
	by       map[string]number // the process behind each one that has answered
	busy     bool
	stranger bool // was no member when it was asked
	next     time.Time
	pause    time.Duration
}

// Watch looks for peer IDs behind which there are several processes, until the task group ends.
func (t *Twins) Watch() { t.env.Tasks.Every(lookEvery, t.look) }

// look begins to ask the peers where there is something to be learned.
func (t *Twins) look(now time.Time) {
	several := t.several(now)
	ids := make([]peer.ID, 0, len(several))
	for id := range several {
		ids = append(ids, id)
	}
	t.forget(several)
	slices.SortFunc(ids, func(a, b peer.ID) int { return cmp.Compare(t.rank(a), t.rank(b)) })
	for _, id := range ids {
		if !t.env.Admits(id) || !t.begin(id, several[id], now) {
			continue
		}
		conns := several[id]
		if !t.env.Tasks.Go(func() { t.end(id, t.ask(id, conns)) }) {
			t.end(id, nil)
		}
	}
}

// rank puts members first.
func (t *Twins) rank(id peer.ID) int {
	if t.env.Members.Has(id) {
		return 0
	}
	return 1
}

// several are the peers that have several connections, with the newest of these.
func (t *Twins) several(now time.Time) map[peer.ID][]network.Conn {
	all := make(map[peer.ID][]network.Conn)
	for _, c := range t.env.Host.Network().Conns() {
		if !c.IsClosed() && now.Sub(c.Stat().Opened) >= settledAge {
			all[c.RemotePeer()] = append(all[c.RemotePeer()], c)
		}
	}
	for id, conns := range all {
		if len(conns) < 2 {
			delete(all, id)
			continue
		}
		slices.SortFunc(conns, func(a, b network.Conn) int { return b.Stat().Opened.Compare(a.Stat().Opened) })
		all[id] = conns[:min(len(conns), maxConns)]
	}
	return all
}

// forget drops the records of all peers but those that have several connections now.
func (t *Twins) forget(several map[peer.ID][]network.Conn) {
	w := &t.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range w.mu.records {
		if _, there := several[id]; !there && !r.busy {
			delete(w.mu.records, id)
		}
	}
}

// begin says whether a peer is to be asked now: one that has another connection than the last time,
// or after a pause one whose connections are not known to lead to one process.
func (t *Twins) begin(id peer.ID, conns []network.Conn, now time.Time) bool {
	w := &t.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.mu.records[id]
	if r == nil {
		r = &record{}
		w.mu.records[id] = r
	}
	isNew := slices.ContainsFunc(conns, func(c network.Conn) bool { return !r.asked[c.ID()] })
	stranger := !t.env.Members.Has(id)
	switch {
	case r.busy || r.one(conns) || !isNew && now.Before(r.next) || stranger && w.mu.strangers >= maxStrangers:
		return false
	case isNew:
		r.pause = leastPause
	}
	r.asked = make(map[string]bool, len(conns))
	for _, c := range conns {
		r.asked[c.ID()] = true
	}
	r.busy, r.stranger = true, stranger
	if stranger {
		w.mu.strangers++
	}
	return true
}

// end undoes begin, and notes which processes have answered.
func (t *Twins) end(id peer.ID, by map[string]number) {
	w := &t.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.mu.records[id]
	if r.stranger {
		w.mu.strangers--
	}
	r.busy, r.by = false, by
	r.next = time.Now().Add(r.pause)
	r.pause = min(2*r.pause, mostPause)
}

// one says whether one process is known to be behind all connections.
func (r *record) one(conns []network.Conn) bool {
	first, ok := r.by[conns[0].ID()]
	return ok && !slices.ContainsFunc(conns[1:], func(c network.Conn) bool {
		other, ok := r.by[c.ID()]
		return !ok || other != first
	})
}
