package nodetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// What chaos does to peers and links. A fault lasts for a while, and then its remedy follows.

// fault is a kind of them.
type fault struct {
	what, remedied string // said of the peer that it hits
	do, undo       func(c *chaos, p *Peer)
	// says whether it may happen now, or is the whole of a fault that is of no one peer: do is nil
	// then
	special func(c *chaos, p *Peer, lasts time.Duration) bool
}

const restarts = "restarts"

var (
	// crash is kill -9 of a process: its kernel closes the connections.
	crash = fault{"crashes", restarts, (*chaos).end, (*chaos).start, nil}
	// silent is kill -9 of one whose machine goes with it: nobody is told.
	silent = fault{"vanishes", restarts, func(c *chaos, p *Peer) {
		c.s.Net.Freeze(p.Host)
		c.end(p)
	}, func(c *chaos, p *Peer) {
		c.s.Net.Thaw(p.Host)
		c.start(p)
	}, nil}
	// wipe loses the disk with the process.
	wipe = fault{"crashes and loses its disk", restarts, func(c *chaos, p *Peer) {
		c.end(p)
		Remove(c.s.T, p, "")
	}, (*chaos).start, (*chaos).mayWipe}
	// leave leaves as the command line does, and comes back later; it ends at once then, if the
	// others could not agree to it yet.
	leave = fault{leaves, restarts, func(c *chaos, p *Peer) { close(c.told[p]) }, func(c *chaos, p *Peer) {
		c.end(p)
		c.start(p)
	}, nil}
	// stopped is SIGSTOP and, later, SIGCONT.
	stopped = fault{
		"is stopped", "goes on", func(c *chaos, p *Peer) { c.s.Freeze(p) },
		func(c *chaos, p *Peer) { c.s.Thaw(p) }, nil,
	}
	// cutOff loses all of a peer's links; its trainer goes on.
	cutOff = fault{
		"is cut off", "is reached again", func(c *chaos, p *Peer) { c.s.Net.Freeze(p.Host) },
		func(c *chaos, p *Peer) { c.s.Net.Thaw(p.Host) }, nil,
	}
)

// faults are the kinds, each as often as it is listed.
var faults = []fault{
	silent, silent, crash, crash, wipe, leave, stopped, stopped, cutOff,
	{special: (*chaos).deaf},
	{special: (*chaos).partition},
	{special: (*chaos).slow},
	{special: (*chaos).slow},
	{special: (*chaos).arrive},
	{special: (*chaos).arrive},
	{special: (*chaos).bootstrap},
	{special: (*chaos).leader},
	{special: (*chaos).blackout},
}

const leaves = "leaves"

// strike lets one fault happen. All chance is drawn first, so that a seed's faults do not depend on
// how the last one went.
func (c *chaos) strike() {
	f, p := faults[c.rand.IntN(len(faults))], c.s.Peers[c.rand.IntN(len(c.s.Peers))]
	lasts := time.Duration(100+c.rand.IntN(9000)) * time.Millisecond
	if (f.special == nil || f.special(c, p, lasts)) && f.do != nil {
		c.hit(f, p, lasts)
	}
}

// hit has a fault hit a peer until its remedy is due, unless something is wrong with it already.
func (c *chaos) hit(f fault, p *Peer, lasts time.Duration) bool {
	if c.trouble[p] != "" || p.Done == nil {
		return false
	}
	c.note("host %d %s", p.Host, f.what)
	p.Troubled.Store(true)
	c.trouble[p] = f.what
	r := remedy{at: time.Now().Add(lasts), what: fmt.Sprintf("host %d %s", p.Host, f.remedied), do: func() {
		f.undo(c, p)
		delete(c.trouble, p)
	}}
	if f.remedied == restarts {
		r.down = p
	}
	c.undo = append(c.undo, r)
	f.do(c, p)
	return true
}

// linksUntil says that something is wrong with links, for a while.
func (c *chaos) linksUntil(after time.Duration, what string, do func()) {
	c.links++
	c.later(after, what, func() { c.links--; do() })
}

func (c *chaos) later(after time.Duration, what string, do func()) {
	c.undo = append(c.undo, remedy{at: time.Now().Add(after), what: what, do: do})
}

// mayWipe says whether the quorum would outlive the loss of one more disk: else that is no fault
// that a run can get over.
func (c *chaos) mayWipe(*Peer, time.Duration) bool {
	lost := 0
	for _, m := range c.audit.best.Members {
		if l := c.s.ByID(m.Peer).Ledger(); l == nil || l.Incarnation() != m.Incarnation {
			lost++
		}
	}
	return 3*(lost+1) <= len(c.audit.best.Members)
}

// deaf loses the packets of some links in one direction.
func (c *chaos) deaf(p *Peer, lasts time.Duration) bool {
	c.note("host %d does not hear three others", p.Host)
	p.Troubled.Store(true)
	for range 3 {
		q := c.s.Peers[c.rand.IntN(len(c.s.Peers))]
		q.Troubled.Store(true)
		c.s.Net.CutOneWay(q.Host, p.Host)
		c.linksUntil(lasts, fmt.Sprintf("host %d hears host %d", p.Host, q.Host), func() {
			c.s.Net.Heal(q.Host, p.Host)
		})
	}
	return true
}

// partition cuts the swarm in two, all but the peers that come later.
func (c *chaos) partition(_ *Peer, lasts time.Duration) bool {
	size := len(c.s.Peers)/3 + c.rand.IntN(len(c.s.Peers)/3)
	all := slices.Clone(c.s.Peers)
	c.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if c.links > 0 {
		return false
	}
	a, b := all[:size], all[size:]
	c.note("%d and %d peers cannot see each other", len(a), len(b))
	c.s.Cut(true, a, b)
	c.linksUntil(6*time.Second+lasts, "they can again", func() { c.s.Cut(false, a, b) })
	return true
}

// slow adds to the latency of a peer's packets.
func (c *chaos) slow(p *Peer, lasts time.Duration) bool {
	c.note("host %d has slow links", p.Host)
	p.Troubled.Store(true)
	c.s.Net.Slow(p.Host, 150*time.Millisecond)
	c.later(lasts, fmt.Sprintf("host %d has fast links again", p.Host), func() { c.s.Net.Slow(p.Host, 0) })
	return true
}

// arrive brings a new peer.
func (c *chaos) arrive(*Peer, time.Duration) bool {
	if len(c.s.Peers) >= c.most {
		return false
	}
	q := c.s.Add()
	c.note("host %d arrives", q.Host)
	q.Trainer.(*Bowl).Pace = chaosPace
	c.start(q)
	return true
}

// bootstrap takes the bootstrap node away for a while.
func (c *chaos) bootstrap(_ *Peer, lasts time.Duration) bool {
	c.note("the bootstrap node is gone")
	c.s.Net.Freeze(0)
	c.later(lasts, "the bootstrap node is back", func() { c.s.Net.Thaw(0) })
	return true
}

// leader lets the leader of the open height crash.
func (c *chaos) leader(_ *Peer, lasts time.Duration) bool {
	best := c.audit.best
	order := slot.LeaderOrder(best.Run, best.Height+1, best.Members)
	return c.hit(crash, c.s.ByID(order[0].Peer), lasts)
}

// blackout ends all processes at once. They come back one after the other.
func (c *chaos) blackout(_ *Peer, lasts time.Duration) bool {
	c.note("blackout")
	for i, p := range slices.Clone(c.s.Peers) {
		c.hit(crash, p, lasts/4+time.Duration(i)*50*time.Millisecond)
	}
	return true
}
