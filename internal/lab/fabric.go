package lab

import (
	"time"
)

// maxPackets bounds the packets on their way at once, about 100 MB: what is sent above it is
// dropped.
const maxPackets = 1 << 16

// A pair is two nodes, in order.
type pair struct{ from, to int }

// A fabric carries packets between nodes: up the sender's link, down the receiver's. It is pure:
// times are arguments, since the lab's start, and must not go back. The caller reads packets, calls
// send with each, sleeps until next, and writes what deliver returns.
type fabric struct {
	up, down []*pipe
	cuts     cuts
	agenda   agenda
	arrived  []*packet
	onTheWay int
	release  func(*packet) // takes packets that were dropped
}

func newFabric(nodes int, link Link, seed uint64, release func(*packet)) *fabric {
	f := &fabric{cuts: newCuts(nodes), release: release}
	for i := range uint64(nodes) {
		f.up = append(f.up, newPipe(link, seed, 2*i))
		f.down = append(f.down, newPipe(link, seed, 2*i+1))
	}
	return f
}

// send starts a packet on its way from pk.from to pk.to.
func (f *fabric) send(now time.Duration, pk *packet) {
	f.advance(now)
	f.onTheWay++
	if f.onTheWay > maxPackets || f.cuts.apart(pk.from, pk.to) {
		f.drop(pk)
		return
	}
	pk.hop = uplink
	f.enter(now, f.up[pk.from], pk)
}

// next is when deliver has something to do.
func (f *fabric) next() (at time.Duration, ok bool) {
	if len(f.arrived) > 0 {
		return 0, true
	}
	return f.agenda.next()
}

// deliver returns the packets that have reached their nodes by now, in place of empty, which it may
// use later.
func (f *fabric) deliver(now time.Duration, empty []*packet) []*packet {
	f.advance(now)
	out := f.arrived
	f.arrived = empty[:0]
	return out
}

// advance does all that is due by now, each thing at its own time.
func (f *fabric) advance(now time.Duration) {
	for {
		at, ok := f.agenda.next()
		if !ok || at > now {
			return
		}
		e := f.agenda.take()
		switch {
		case e.packet != nil:
			f.arrive(e.at, e.packet)
		case e.version == e.pipe.version:
			f.depart(e.at, e.pipe)
		}
	}
}

func (f *fabric) enter(at time.Duration, p *pipe, pk *packet) {
	idle := p.waiting.empty()
	if !p.push(at, pk) {
		f.drop(pk)
		return
	}
	if idle {
		f.foretell(p)
	}
}

// foretell notes when the first packet of p's queue leaves.
func (f *fabric) foretell(p *pipe) {
	f.agenda.add(event{at: p.departure(), pipe: p, version: p.version})
}

func (f *fabric) depart(at time.Duration, p *pipe) {
	pk, arrival, lost := p.pop(at)
	if lost {
		f.drop(pk)
	} else {
		f.agenda.add(event{at: arrival, pipe: p, packet: pk})
	}
	if !p.waiting.empty() {
		f.foretell(p)
	}
}

// arrive takes a packet that came out of a pipe to the next one, or to its node.
func (f *fabric) arrive(at time.Duration, pk *packet) {
	switch {
	case pk.hop == uplink:
		pk.hop = downlink
		f.enter(at, f.down[pk.to], pk)
	case f.cuts.apart(pk.from, pk.to):
		f.drop(pk)
	default:
		f.onTheWay--
		f.arrived = append(f.arrived, pk)
	}
}

func (f *fabric) drop(pk *packet) {
	f.onTheWay--
	f.release(pk)
}

// setLink changes both directions of a node's link.
func (f *fabric) setLink(now time.Duration, node int, link Link) {
	for _, p := range []*pipe{f.up[node], f.down[node]} {
		p.change(now, link)
		if !p.waiting.empty() {
			f.foretell(p)
		}
	}
}

// cuts say which nodes cannot reach each other. A packet is stopped where it starts and where it
// would arrive: a packet under way when a cut begins is lost, unless the cut ends before it
// arrives.
type cuts struct {
	nodes []bool
	muted []bool        // their packets go nowhere; others' packets reach them
	pairs map[pair]bool // both orders
	group []int         // of each node; nodes of different groups are apart
}

func newCuts(nodes int) cuts {
	return cuts{
		nodes: make([]bool, nodes), muted: make([]bool, nodes), pairs: make(map[pair]bool), group: make([]int, nodes),
	}
}

// apart says whether packets from node i do not reach node j.
func (c *cuts) apart(i, j int) bool {
	return c.muted[i] || c.nodes[i] || c.nodes[j] || c.group[i] != c.group[j] || c.pairs[pair{i, j}]
}

func (c *cuts) cutPair(i, j int) {
	c.pairs[pair{i, j}] = true
	c.pairs[pair{j, i}] = true
}

// partition puts the nodes into groups. All nodes that are not named form one more group.
func (c *cuts) partition(groups [][]int) {
	clear(c.group)
	for g, nodes := range groups {
		for _, i := range nodes {
			c.group[i] = g + 1
		}
	}
}

func (c *cuts) heal() {
	clear(c.nodes)
	clear(c.muted)
	clear(c.pairs)
	clear(c.group)
}

func (c *cuts) healNode(i int) {
	c.nodes[i], c.muted[i] = false, false
	for way := range c.pairs {
		if way.from == i || way.to == i {
			delete(c.pairs, way)
		}
	}
}
