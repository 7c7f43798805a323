package lab

import (
	"math/rand/v2"
	"time"
)

// A packet is one IP packet on its way.
type packet struct {
	data []byte // what was read: the front of buf
	buf  []byte // one MTU
	from int    // node
	to   int    // node
	hop  hop    // which pipe it is in
	next *packet
	at   time.Duration // when it came into that pipe
}

// hop is a place on a packet's way.
type hop int

const (
	uplink   hop = iota // from the sender to the middle
	downlink            // to the receiver
)

// fifo is a queue of packets, linked through them.
type fifo struct {
	head, tail *packet
	bytes      int
}

func (q *fifo) empty() bool { return q.head == nil }

func (q *fifo) push(pk *packet) {
	pk.next = nil
	if q.empty() {
		q.head = pk
	} else {
		q.tail.next = pk
	}
	q.tail = pk
	q.bytes += len(pk.data)
}

func (q *fifo) pop() *packet {
	pk := q.head
	q.head, pk.next = pk.next, nil
	q.bytes -= len(pk.data)
	return pk
}

// A pipe is one direction of a link: a bounded queue, a transmitter that sends one packet after the
// other at the link's rate, and a wire that takes its time and loses some. It is pure: times are
// arguments, since the lab's start.
//
// Invariants: no packet is queued where link.queue() bytes wait; packets are sent in the order they
// came, and arrive in it.
type pipe struct {
	link    Link
	rng     *rand.Rand
	waiting fifo
	free    time.Duration // when the transmitter ended, or ends, its last packet
	newest  time.Duration // latest arrival so far
	// counts changes of the link: departures scheduled before a change are void
	version int
}

func newPipe(link Link, seed, stream uint64) *pipe {
	return &pipe{link: link, rng: rand.New(rand.NewPCG(seed, stream))}
}

// push queues pk, unless the queue is full.
func (p *pipe) push(now time.Duration, pk *packet) bool {
	if p.link.Rate != 0 && p.waiting.bytes+len(pk.data) > p.link.queue() {
		return false
	}
	pk.at = now
	p.waiting.push(pk)
	return true
}

// departure is when the first of the queue has left the transmitter. The queue must not be empty.
func (p *pipe) departure() time.Duration {
	return max(p.free, p.waiting.head.at) + p.link.sending(len(p.waiting.head.data))
}

// pop takes the first packet of the queue, which leaves now. It returns when the packet arrives, or
// that it is lost.
func (p *pipe) pop(now time.Duration) (pk *packet, arrival time.Duration, lost bool) {
	pk = p.waiting.pop()
	p.free = now
	if p.rng.IntN(perMille) < p.link.Loss {
		return pk, 0, true
	}
	p.newest = max(now+p.link.Delay, p.newest)
	return pk, p.newest, false
}

// change gives the pipe another link. Waiting packets are sent at the new rate from now on.
func (p *pipe) change(now time.Duration, link Link) {
	p.link = link
	p.version++
	p.free = max(p.free, now)
}
