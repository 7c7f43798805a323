package lab

import (
	"math/rand/v2"
	"slices"
	"time"
)

// maxPackets bounds the packets on their way at once, about 100 MB: what is sent above it is
// dropped.
const maxPackets = 1 << 16

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// A fabric carries packets between nodes: up the sender's link, down the receiver's. It is pure:
// times are arguments, since the lab's start, and must not go back. The caller calls send with each
// packet, sleeps until next, and writes what deliver returns.
type fabric struct {
	pipes    []*pipe // node i's uplink is at 2i, its downlink behind it
	cuts     []cut
	rng      *rand.Rand // of loss
	arrived  []*packet
	onTheWay int
	dropped  int // on the way, or where it began
}

func newFabric(nodes int, link Link) *fabric {
	f := &fabric{rng: rand.New(rand.NewPCG(1, 2))}
	for range 2 * nodes {
		f.pipes = append(f.pipes, &pipe{link: link})
	}
	return f
}

// send starts a packet on its way from pk.from to pk.to.
func (f *fabric) send(now time.Duration, pk *packet) {
	f.advance(now)
	if f.onTheWay < maxPackets && !f.apart(pk.from, pk.to) && f.pipes[2*pk.from].push(now, pk) {
		f.onTheWay++
	} else {
		f.dropped++
	}
}

// next is when deliver has something to do, or never.
func (f *fabric) next() time.Duration {
	if len(f.arrived) > 0 {
		return 0
	}
	_, at := f.first()
	return at
}

// first is the pipe that has something to do before all others, and when.
func (f *fabric) first() (number int, at time.Duration) {
	at = never
	for i, p := range f.pipes {
		if t := p.next(); t < at {
			number, at = i, t
		}
	}
	return number, at
}

// deliver returns the packets that have reached their nodes by now.
func (f *fabric) deliver(now time.Duration) (due []*packet) {
	f.advance(now)
	due, f.arrived = f.arrived, nil
	return due
}

// advance does all that is due by now, each thing at its own time. A packet is stopped by cuts
// where it starts and where it would arrive: what is under way when a cut begins is lost, unless
// the cut ends before it arrives.
func (f *fabric) advance(now time.Duration) {
	for {
		i, at := f.first()
		if at > now || at == never {
			return
		}
		pk := f.pipes[i].step(at)
		if pk == nil { // it was sent
			continue
		}
		lost, up := f.rng.IntN(perMille) < f.pipes[i].link.Loss, i%2 == 0
		switch {
		case !lost && up && f.pipes[2*pk.to+1].push(at, pk):
			continue
		case !lost && !up && !f.apart(pk.from, pk.to):
			f.arrived = append(f.arrived, pk)
		default:
			f.dropped++
		}
		f.onTheWay--
	}
}

// setLink changes both directions of a node's link.
func (f *fabric) setLink(now time.Duration, node int, link Link) {
	f.pipes[2*node].change(now, link)
	f.pipes[2*node+1].change(now, link)
}

// A cut stops packets until one of its nodes is healed: those of which it is told whether they come
// from one of the nodes, and whether they go to one.
type cut struct {
	nodes []int
	stops func(from, to bool) bool
}

// apart says whether packets from one node do not reach another.
func (f *fabric) apart(from, to int) bool {
	return slices.ContainsFunc(f.cuts, func(c cut) bool {
		return c.stops(slices.Contains(c.nodes, from), slices.Contains(c.nodes, to))
	})
}

// heal takes back the cuts of some nodes; without any, all.
func (f *fabric) heal(nodes ...int) {
	f.cuts = slices.DeleteFunc(f.cuts, func(c cut) bool {
		return len(nodes) == 0 || slices.ContainsFunc(c.nodes, func(i int) bool { return slices.Contains(nodes, i) })
	})
}
