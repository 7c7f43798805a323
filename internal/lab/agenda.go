package lab

import "time"

// An event is something that a fabric does at a time: a pipe's first packet leaves the transmitter
// (packet is nil), or a packet comes out of its pipe.
type event struct {
	at      time.Duration
	number  uint64 // events of one time happen in the order they were made
	pipe    *pipe
	version int // of the pipe, when the departure was scheduled
	packet  *packet
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.number < o.number
}

// agenda is a binary heap of events, the earliest first.
type agenda struct {
	events []event
	made   uint64
}

func (a *agenda) add(e event) {
	e.number = a.made
	a.made++
	a.events = append(a.events, e)
	for i := len(a.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a.events[i].before(a.events[parent]) {
			return
		}
		a.events[i], a.events[parent] = a.events[parent], a.events[i]
		i = parent
	}
}

// next is when the earliest event is due.
func (a *agenda) next() (at time.Duration, ok bool) {
	if len(a.events) == 0 {
		return 0, false
	}
	return a.events[0].at, true
}

// take removes the earliest event. There must be one.
func (a *agenda) take() event {
	first, last := a.events[0], len(a.events)-1
	a.events[0], a.events[last] = a.events[last], event{}
	a.events = a.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if a.events[child].before(a.events[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		a.events[i], a.events[least] = a.events[least], a.events[i]
		i = least
	}
}
