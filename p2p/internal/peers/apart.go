package peers

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// ErrApart is what is returned at once for a peer that could not be dialled lately.
var ErrApart = errors.New("it could not be reached lately, and is being dialled again")

const (
	// apartTerm is for how long a failed dial counts. While somebody wants the peer it is dialled
	// again and again, so that it counts for as long as the peer cannot be reached.
	apartTerm = time.Minute
	// apartPatience is how long a dial must have waited if its caller ended it: then that it came
	// to nothing says something of the peer.
	apartPatience = 3 * time.Second
	apartAgain    = 5 * time.Second // from one dial in the background to the next
	maxApart      = 4096            // peers whose failures are remembered
)

// apart are the peers that could not be dialled lately. Where the packets of a pair are dropped on
// the way, each dial takes until it runs out of time: what is sent to such a peer must not wait for
// that each time anew.
type apart struct {
	member func(peer.ID) bool
	mu     struct {
		sync.Mutex
		since map[peer.ID]time.Time // when a dial last failed
		again map[peer.ID]time.Time // when one in the background last began
	}
}

func newApart(member func(peer.ID) bool) *apart {
	a := &apart{member: member}
	a.mu.since, a.mu.again = make(map[peer.ID]time.Time), make(map[peer.ID]time.Time)
	return a
}

// note takes in how a dial ended.
func (a *apart) note(id peer.ID, began time.Time, err error) {
	now := time.Now()
	if err == nil || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) && now.Sub(began) < apartPatience {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.mu.since) >= maxApart {
		a.makeRoom(now)
	}
	a.mu.since[id] = now
}

// makeRoom forgets failures that count no more, or else those of all but members: anybody may
// announce thousands of peers that are not there, and members must not be waited for again because
// of that. mu is held.
func (a *apart) makeRoom(now time.Time) {
	maps.DeleteFunc(a.mu.since, func(_ peer.ID, at time.Time) bool { return now.Sub(at) >= apartTerm })
	if len(a.mu.since) >= maxApart {
		maps.DeleteFunc(a.mu.since, func(id peer.ID, _ time.Time) bool { return !a.member(id) })
	}
	if len(a.mu.since) >= maxApart {
		clear(a.mu.since)
	}
}

// connected forgets what there was about a peer.
func (a *apart) connected(id peer.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.mu.since, id)
	delete(a.mu.again, id)
}

func (a *apart) has(id peer.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, failed := a.mu.since[id]
	return failed && time.Since(at) < apartTerm
}

// due says whether a peer is to be dialled in the background now, and takes note of it.
func (a *apart) due(id peer.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if at, began := a.mu.again[id]; began && now.Sub(at) < apartAgain {
		return false
	}
	if len(a.mu.again) >= maxApart {
		clear(a.mu.again)
	}
	a.mu.again[id] = now
	return true
}

// Apart says whether a dial to a peer has failed lately, and it has not connected since.
func (d *Dialer) Apart(id peer.ID) bool { return d.apart.has(id) }

// Again dials a peer in the background, unless that began a moment ago.
func (d *Dialer) Again(id peer.ID) {
	if !d.apart.due(id) {
		return
	}
	d.group.Go(func() {
		d.ForgetFailures(id)
		if err := d.Connect(d.group.Context(), peer.AddrInfo{ID: id}); err != nil {
			d.log.Debug("a peer cannot be reached", "peer", id, "err", err)
		}
	})
}
