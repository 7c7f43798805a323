package lab

import (
	"cmp"
	"container/heap"
	"time"
)

// An event is something that a fabric does at a time: a pipe's first packet leaves the transmitter
// (packet is nil), or a packet comes out of its pipe.
type event struct {
	at      time.Duration
	number  uint64 // events of one time happen in the order they were made
	pipe    *pipe
	version int // of the pipe, when the departure was scheduled
	packet  *packet
}

// agenda holds events, the earliest first.
type agenda struct {
	events events
	made   uint64
}

func (a *agenda) add(e event) {
	e.number = a.made
	a.made++
	heap.Push(&a.events, e)
}

// next is when the earliest event is due.
func (a *agenda) next() (at time.Duration, ok bool) {
	if len(a.events) == 0 {
		return 0, false
	}
	return a.events[0].at, true
}

// take removes the earliest event. There must be one.
func (a *agenda) take() event { return heap.Pop(&a.events).(event) }

// events is a heap.Interface.
type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].number, e[j].number)) < 0
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

func (e *events) Push(x any) { *e = append(*e, x.(event)) }

func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
