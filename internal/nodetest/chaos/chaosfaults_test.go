package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// What chaos does to peers and links. A fault lasts for a while, and then its remedy follows.

const (
	leaves   = "leaves"
	restarts = "restarts"
)

// faults are the kinds, each as often as it is listed. Each returns false where it does not apply.
var faults = []func(c *chaos, p *nodetest.Peer, lasts time.Duration) bool{
	(*chaos).vanish, (*chaos).vanish, (*chaos).crash, (*chaos).crash, (*chaos).wipe, (*chaos).leave, (*chaos).stopped,
	(*chaos).stopped,
	(*chaos).cutOff, (*chaos).deaf, (*chaos).partition, (*chaos).slow, (*chaos).slow, (*chaos).arrive, (*chaos).arrive,
	(*chaos).bootstrap,
	(*chaos).leader, (*chaos).blackout,
}

// strike lets one fault happen. All chance is drawn first, so that a seed's faults do not depend on
// how the last one went.
func (c *chaos) strike() {
	what, who := c.rand.IntN(len(faults)), c.rand.IntN(len(c.s.Peers))
	lasts := time.Duration(100+c.rand.IntN(9000)) * time.Millisecond
	faults[what](c, c.s.Peers[who], lasts)
}

// hit notes that something is wrong with a peer until its remedy is due; false if something is
// wrong with it already.
func (c *chaos) hit(p *nodetest.Peer, what, remedied string, lasts time.Duration, undo func()) bool {
	if c.trouble[p] != "" || p.Done == nil {
		return false
	}
	c.note("host %d %s", p.Host, what)
	c.trouble[p] = what
	r := remedy{at: time.Now().Add(lasts), what: fmt.Sprintf("host %d %s", p.Host, remedied), do: func() {
		undo()
		delete(c.trouble, p)
	}}
	if remedied == restarts {
		r.down = p
	}
	c.undo = append(c.undo, r)
	return true
}

func (c *chaos) later(after time.Duration, what string, do func()) {
	c.undo = append(c.undo, remedy{at: time.Now().Add(after), what: what, do: do})
}

// vanish is kill -9 of a peer whose machine goes with it: nobody is told.
func (c *chaos) vanish(p *nodetest.Peer, lasts time.Duration) bool {
	return c.hit(p, "vanishes", restarts, lasts, func() { c.s.Net.Thaw(p.Host); c.start(p) }) && c.down(p, true)
}

// crash is kill -9 of a process: its kernel closes the connections.
func (c *chaos) crash(p *nodetest.Peer, lasts time.Duration) bool {
	return c.hit(p, "crashes", restarts, lasts, func() { c.start(p) }) && c.down(p, false)
}

// wipe loses the disk with the process. Not where the quorum could be lost with it: that is no
// fault that a run can get over.
func (c *chaos) wipe(p *nodetest.Peer, lasts time.Duration) bool {
	lost := 0
	for _, m := range c.audit.best.Members {
		if l := c.s.ByID(m.Peer).Ledger(); l == nil || l.Incarnation() != m.Incarnation {
			lost++
		}
	}
	if 3*(lost+1) > len(c.audit.best.Members) {
		return false
	}
	ok := c.hit(p, "crashes and loses its disk", restarts, lasts, func() { c.start(p) }) && c.down(p, false)
	if ok {
		nodetest.Remove(c.s.T, p, "")
	}
	return ok
}

func (c *chaos) down(p *nodetest.Peer, silently bool) bool {
	if silently {
		c.s.Net.Freeze(p.Host)
	}
	c.end(p)
	return true
}

// leave leaves as the command line does, and comes back later.
func (c *chaos) leave(p *nodetest.Peer, lasts time.Duration) bool {
	ok := c.hit(p, leaves, restarts, lasts, func() {
		c.end(p) // at once, if the others could not agree to it yet
		c.start(p)
	})
	if ok {
		close(c.told[p])
		c.trouble[p] = leaves
	}
	return ok
}

// stopped is SIGSTOP and, later, SIGCONT.
func (c *chaos) stopped(p *nodetest.Peer, lasts time.Duration) bool {
	ok := c.hit(p, "is stopped", "goes on", lasts, func() { c.s.Thaw(p) })
	if ok {
		c.s.Freeze(p)
	}
	return ok
}

// cutOff loses all of a peer's links; its trainer goes on.
func (c *chaos) cutOff(p *nodetest.Peer, lasts time.Duration) bool {
	ok := c.hit(p, "is cut off", "is reached again", lasts, func() { c.s.Net.Thaw(p.Host) })
	if ok {
		c.s.Net.Freeze(p.Host)
	}
	return ok
}

// deaf loses the packets of some links in one direction.
func (c *chaos) deaf(p *nodetest.Peer, lasts time.Duration) bool {
	var others []*nodetest.Peer
	for range 3 {
		others = append(others, c.s.Peers[c.rand.IntN(len(c.s.Peers))])
	}
	ok := c.hit(p, "does not hear three others", "hears all again", lasts, func() {
		for _, q := range others {
			c.s.Net.Heal(q.Host, p.Host)
		}
		c.links--
	})
	if ok {
		c.links++
		for _, q := range others {
			c.s.Net.CutOneWay(q.Host, p.Host)
		}
	}
	return ok
}

// partition cuts the swarm in two, all but the peers that come later.
func (c *chaos) partition(p *nodetest.Peer, lasts time.Duration) bool {
	if c.links > 0 {
		return false
	}
	sizes := len(c.s.Peers)/3 + c.rand.IntN(len(c.s.Peers)/3)
	all := slices.Clone(c.s.Peers)
	c.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	a, b := all[:sizes], all[sizes:]
	c.note("%d and %d peers cannot see each other", len(a), len(b))
	c.links++
	c.s.Cut(true, a, b)
	c.later(6*time.Second+lasts, "they can again", func() {
		c.links--
		c.s.Cut(false, a, b)
	})
	return true
}

// slow adds to the latency of a peer's packets.
func (c *chaos) slow(p *nodetest.Peer, lasts time.Duration) bool {
	c.note("host %d has slow links", p.Host)
	c.s.Net.Slow(p.Host, 150*time.Millisecond)
	c.later(lasts, fmt.Sprintf("host %d has fast links again", p.Host), func() { c.s.Net.Slow(p.Host, 0) })
	return true
}

// arrive brings a new peer.
func (c *chaos) arrive(*nodetest.Peer, time.Duration) bool {
	if len(c.s.Peers) >= c.most {
		return false
	}
	q := c.s.Add()
	c.note("host %d arrives", q.Host)
	q.Trainer.(*nodetest.Bowl).Pace = 25 * time.Millisecond
	c.start(q)
	return true
}

// bootstrap takes the bootstrap node away for a while.
func (c *chaos) bootstrap(_ *nodetest.Peer, lasts time.Duration) bool {
	c.note("the bootstrap node is gone")
	c.s.Net.Freeze(0)
	c.later(lasts, "the bootstrap node is back", func() { c.s.Net.Thaw(0) })
	return true
}

// leader lets the leader of the open height crash.
func (c *chaos) leader(_ *nodetest.Peer, lasts time.Duration) bool {
	best := c.audit.best
	order := slot.LeaderOrder(best.Run, best.Height+1, best.Members)
	return c.crash(c.s.ByID(order[0].Peer), lasts)
}

// blackout ends all processes at once. They come back one after the other.
func (c *chaos) blackout(_ *nodetest.Peer, lasts time.Duration) bool {
	c.note("blackout")
	for i, p := range slices.Clone(c.s.Peers) {
		c.crash(p, lasts/4+time.Duration(i)*50*time.Millisecond)
	}
	return true
}
