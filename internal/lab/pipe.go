package lab

import "time"

// A packet is one IP packet on its way.
type packet struct {
	data     []byte
	from, to int           // nodes
	at       time.Duration // when it came into its pipe; once it has been sent, when it comes out
}

// A pipe is one direction of a link: a bounded queue, a transmitter that sends one packet after the
// other at the link's rate, and a wire that takes its time. It is pure: times are arguments, since
// the lab's start.
//
// Invariants: no packet is queued where link.queue() bytes wait; packets are sent in the order they
// came, and come out in it.
type pipe struct {
	link    Link
	waiting []*packet     // for the transmitter, or in it
	bytes   int           // of those
	free    time.Duration // when the transmitter has sent its last packet
	wire    []*packet
}

// push queues pk, unless the queue is full.
func (p *pipe) push(now time.Duration, pk *packet) bool {
	if p.link.Rate != 0 && p.bytes+len(pk.data) > p.link.queue() {
		return false
	}
	pk.at = now
	p.waiting, p.bytes = append(p.waiting, pk), p.bytes+len(pk.data)
	return true
}

// next is when step has something to do, or never.
func (p *pipe) next() time.Duration {
	at := never
	if len(p.wire) > 0 {
		at = p.wire[0].at
	}
	if len(p.waiting) > 0 {
		first := p.waiting[0]
		at = min(at, max(p.free, first.at)+p.link.sending(len(first.data)))
	}
	return at
}

// step does what is next, and is due now: a packet comes out, or the first one that waits has been
// sent.
func (p *pipe) step(now time.Duration) (out *packet) {
	if len(p.wire) > 0 && p.wire[0].at <= now {
		out, p.wire = p.wire[0], p.wire[1:]
		return out
	}
	pk := p.waiting[0]
	p.waiting, p.bytes, p.free = p.waiting[1:], p.bytes-len(pk.data), now
	pk.at = now + p.link.Delay
	if n := len(p.wire); n > 0 {
		pk.at = max(pk.at, p.wire[n-1].at)
	}
	p.wire = append(p.wire, pk)
	return nil
}

// change gives the pipe another link. Waiting packets are sent at the new rate from now on.
func (p *pipe) change(now time.Duration, link Link) { p.link, p.free = link, max(p.free, now) }
