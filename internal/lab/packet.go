package lab

import "time"

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
	crossing            // between two nodes that have a link of their own there
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
