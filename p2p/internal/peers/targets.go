package peers

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// One loop dials the peers that are to be connected: bootstrap nodes, peers that a search found,
// members whose connection broke, and peers that are remembered.
//
// Anybody may announce any number of peers that are not there: their addresses cost nothing. So
// peers that were found are dialled many at a time, for a short time at first, those first that
// have failed least. One that never said hello is tried ever more seldom.
//
// Members, and those that were members, are dialled for as long as they are remembered. Nothing
// else does that once a network has been cut for half an hour: libp2p has forgotten the addresses
// of the other side by then, and announcements of it in the DHT have ended, while this side has
// each other and does not look alone. In trust crash both sides would go on as two runs.
const (
	dialPause   = 500 * time.Millisecond // between two dials of one peer, at least
	nodePause   = 15 * time.Second       // of a bootstrap node that is gone, at most
	firstDial   = 4 * time.Second        // a stranger's first chance
	nodeTimeout = 10 * time.Second       // for a bootstrap node, with its first word

	// dialled at once: 500 that are not there take no longer than the window in which a newcomer
	// looks for the run
	maxDials = 128
	// in a row, then a peer that was found is dropped if it was not found again lately
	maxFailures   = 12
	strangerFirst = time.Second // after the first failure of a stranger; doubles
	strangerMost  = 32          // times DialConfig.Every is where that ends
	foundLately   = 4           // times DialConfig.Every ago
	// time for a hello after connecting; a peer that has sent none gives its place to others
	greetWithin = time.Minute

	rememberedEvery = 30 * time.Second // between two rounds of dials to remembered peers
	// dials begun in one round, one of them to whoever was lost last: 50 members that are gone for
	// good cost six dials a minute
	rememberedAtOnce = 3
	// rememberedPause is between two dials of one of them, at most. A cut network that is whole
	// again comes together after it.
	rememberedPause = 2 * time.Minute

	failureTerm = time.Minute // for how long a failed dial of a member counts
	// failurePatience is how long a dial must have waited if its caller ended it: then that it came
	// to nothing says something of the peer.
	failurePatience = 3 * time.Second
	againPause      = 5 * time.Second // from one dial in the background to the next
)

// ErrApart is what is returned at once for a member that could not be dialled lately.
var ErrApart = errors.New("it could not be reached lately, and is being dialled again")

// DialConfig says whom a Dialer dials by itself, and how often.
type DialConfig struct {
	Bootstrap []string      // multiaddrs ending in /p2p/ID
	PeersFile string        // remembers addresses; empty: nothing is remembered
	Every     time.Duration // the longest time between two searches for peers
	Ranks     *Ranks        // have QUIC go first to bootstrap nodes; nil: TCP does
}

// target is a peer that the loop dials when it is not connected.
type target struct {
	peer.AddrInfo           // where it was said to be
	node          bool      // its addresses were given
	found         time.Time // by a search, last; zero: by none
	once          bool      // it is dialled once more, whatever next says
	next          time.Time // it is not dialled before
	dialling      bool
	began         time.Time // when it was dialled last
	came          time.Time // when it was connected last
	failures      int       // in a row: dials, and connections on which no hello came
	failed        time.Time // when a dial of a member last failed; zero: it has connected since
	err           error     // of a bootstrap node's last dial
}

// target makes an entry where there is none. mu is held.
func (d *Dialer) target(id peer.ID) *target {
	t := d.mu.targets[id]
	if t == nil {
		t = &target{AddrInfo: peer.AddrInfo{ID: id}}
		d.mu.targets[id] = t
	}
	return t
}

// run dials until the group stops.
func (d *Dialer) run() {
	for d.env.Tasks.Context().Err() == nil {
		timer := time.NewTimer(d.begin(time.Now()))
		select {
		case <-d.env.Tasks.Context().Done():
		case <-d.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// begin dials those whose turn it is, and says when to look again.
func (d *Dialer) begin(now time.Time) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remind(now)
	wait = d.mu.round.Sub(now)
	var due []*target
	for id, t := range d.mu.targets {
		kept := t.node || !t.found.IsZero()
		at := t.next
		if t.once {
			at = t.began.Add(dialPause)
		}
		switch {
		case t.dialling || d.env.reached(id) && (!t.node || d.mu.boot.Answered):
		case !kept && !t.once && !at.After(now) && !d.env.Book.isMember(id):
			delete(d.mu.targets, id)
		case !kept && !t.once:
		case at.After(now):
			wait = min(wait, at.Sub(now))
		default:
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b *target) int { return cmp.Compare(a.failures, b.failures) })
	for _, t := range due {
		if d.mu.dials < maxDials || t.node || t.found.IsZero() {
			d.start(t, now)
		}
	}
	return wait
}

// remind has remembered peers dialled once: all of them if nobody is connected, otherwise a few in
// each round. The first of these is a member, or else the former one that was lost last: the other
// half of a network that is cut is not behind all that have ever left. The others are those dialled
// longest ago. mu is held.
func (d *Dialer) remind(now time.Time) {
	if now.Before(d.mu.round) {
		return
	}
	alone, pause := len(d.env.Host.Network().Peers()) == 0, jittered(rememberedEvery)
	if alone {
		pause = dialPause
	}
	// all peers of a run may have been started, or cut off, at one moment
	d.mu.round = now.Add(pause)
	var due []*target
	for _, id := range d.env.Book.missed(alone) {
		if t := d.target(id); !t.node && !t.dialling && !t.once && !t.next.After(now) {
			due = append(due, t)
		}
	}
	if len(due) > rememberedAtOnce && !alone {
		slices.SortStableFunc(due[1:], func(a, b *target) int { return a.next.Compare(b.next) })
		due = due[:rememberedAtOnce]
	}
	for _, t := range due {
		addrs, shown := d.env.Book.Addrs(t.ID)
		if shown && d.mu.dialling[t.ID] == nil { // who dials now needs those that it has
			d.env.Host.Peerstore().ClearAddrs(t.ID) // hundreds of false ones would be dialled first
		}
		if t.once = true; len(addrs) > 0 {
			t.Addrs = addrs
		}
	}
}

// start dials a target. mu is held.
func (d *Dialer) start(t *target, now time.Time) {
	p, node, first := t.AddrInfo, t.node, t.failures == 0 && d.stranger(t, now)
	t.dialling, t.once, t.began = true, false, now
	d.mu.dials++
	d.env.Tasks.Go(func() { d.ended(p.ID, d.try(p, node, first), time.Now()) })
}

// try connects to a peer. Where a bootstrap node, or a stranger at its first chance, might be
// nobody else is asked.
func (d *Dialer) try(p peer.AddrInfo, node, first bool) error {
	d.ForgetFailures(p.ID)
	if !node && !first {
		return d.Connect(d.env.Tasks.Context(), p)
	}
	timeout := firstDial
	if node {
		timeout = nodeTimeout
	}
	ctx, cancel := context.WithTimeout(d.env.Tasks.Context(), timeout)
	defer cancel()
	if err := d.Dial(ctx, p); err != nil {
		return &Fault{Peer: p.ID, Err: err}
	}
	if node {
		return d.answered(ctx, p.ID)
	}
	return nil
}

// ended takes in how a dial ended.
func (d *Dialer) ended(id peer.ID, err error, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.dials--
	d.wake.Raise()
	t := d.mu.targets[id]
	if t == nil {
		return
	}
	if t.dialling = false; t.node {
		d.nodeEnded(t, err)
	}
	if err == nil {
		// It may have ended by now, and libp2p goes on giving the ended one to all that dial, while
		// another dial of the peer is under way.
		t.next = now.Add(max(d.cfg.Every/2, dialPause))
		return
	}
	d.env.Log.Debug("a peer does not answer", "peer", id, "err", err)
	d.failed(t, now)
	if t.failures == maxFailures && !t.found.IsZero() && now.Sub(t.found) > foundLately*d.cfg.Every {
		t.found = time.Time{}
	}
}

// failed has a target wait after a failure. mu is held.
func (d *Dialer) failed(t *target, now time.Time) {
	t.failures = min(t.failures+1, maxFailures)
	often := max(d.cfg.Every, dialPause)
	switch {
	case t.node || (t.found.IsZero() || d.env.Book.isMember(t.ID)) && len(d.env.Host.Network().Peers()) == 0:
		t.next = now.Add(min(dialPause<<(t.failures-1), nodePause, often))
	case t.found.IsZero():
		t.next = now.Add(jittered(rememberedPause))
	case !d.stranger(t, now): // it may be back any moment
		t.next = now.Add(often / 2)
	default:
		t.next = now.Add(min(strangerFirst<<(t.failures-1), strangerMost*often))
	}
}

// stranger says whether a target is neither a bootstrap node nor a member, and has not said hello.
func (d *Dialer) stranger(t *target, now time.Time) bool {
	return !t.node && !d.env.Members.Has(t.ID) && !d.env.Greeted.Has(t.ID, now)
}

// unresponsive says whether a stranger had time for a hello since it was connected last.
func (d *Dialer) unresponsive(t *target, now time.Time) bool {
	return d.stranger(t, now) && !t.came.IsZero() && now.Sub(t.came) > greetWithin
}

// connected notes a connection.
func (d *Dialer) connected(id peer.ID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.mu.targets[id]; t != nil {
		t.came, t.failed, t.once = now, time.Time{}, false
	}
}

// lost has a peer dialled again whose last connection ended: at once, if it is no stranger. One
// that is unresponsive would else be dialled again and again, to say nothing.
func (d *Dialer) lost(id peer.ID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wake.Raise()
	if len(d.env.Host.Network().Peers()) == 0 {
		d.mu.round = now
	}
	t := d.mu.targets[id]
	if d.env.Members.Has(id) {
		t = d.target(id)
		t.once = true
	}
	switch {
	case t == nil:
	case d.unresponsive(t, now):
		d.failed(t, now)
	case d.stranger(t, now):
		t.next = now.Add(max(d.cfg.Every/2, dialPause))
	default:
		t.failures, t.next = 0, t.began.Add(dialPause)
	}
}

// Again dials a peer in the background, unless that began a moment ago.
func (d *Dialer) Again(id peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.target(id); !t.dialling && time.Since(t.began) >= againPause {
		t.once = true
		d.wake.Raise()
	}
}

// Hurry dials the members and bootstrap nodes that are missing at once. Dials under way go on, or
// begin anew: some addresses of this machine come and go all the time.
func (d *Dialer) Hurry(anew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wake.Raise()
	missing := slices.DeleteFunc(d.env.Members.List(), d.env.Connected)
	if anew || len(missing) > 0 {
		missing = append(missing, slices.DeleteFunc(slices.Clone(d.mu.nodes), d.env.Connected)...)
	}
	for _, id := range missing {
		d.target(id).once = true
		d.ForgetFailures(id)
		for cancel := range d.mu.dialling[id] {
			if anew {
				(*cancel)()
			}
		}
	}
}

// Apart says whether a dial to a member has failed lately, and it has not connected since: where
// the packets of a pair are dropped on the way, each dial takes until it runs out of time, and what
// is sent to such a peer must not wait for that each time anew.
func (d *Dialer) Apart(id peer.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.mu.targets[id]
	return t != nil && time.Since(t.failed) < failureTerm && d.env.Members.Has(id) && !d.env.reached(id)
}

// note takes in how any dial to a peer ended.
func (d *Dialer) note(id peer.ID, began time.Time, err error) {
	now := time.Now()
	if err == nil || !d.env.Members.Has(id) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) && now.Sub(began) < failurePatience {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target(id).failed = now
}

// jittered is between half of a time and all of it.
func jittered(d time.Duration) time.Duration { return d - rand.N(d/2) }
