package eventlog

import (
	"errors"
	"sync"
	"time"
)

// OutboxBytes bounds the texts that wait, and so what a reader that is slow for a while may lag
// behind.
const OutboxBytes = 1 << 20

// Outbox holds texts until they are written. Its methods may be called from any goroutine.
type Outbox struct {
	write  func([]byte) error
	missed func(texts int) []byte

	more *sync.Cond    // of mu: there is something to do
	done chan struct{} // closed when the goroutine has ended
	mu   struct {
		sync.Mutex
		waiting []item
		bytes   int // of them
		left    int // texts that were left out since the newest that waits
		lost    int // all that were left out
		closed  bool
		err     error // of the last write that failed
	}
}

// item is a text; or how many were left out in its place.
type item struct {
	text []byte
	left int
}

// NewOutbox makes a Box. write gets one text at a time, and may block. missed makes the text that
// stands in the place of so many which were left out.
func NewOutbox(write func([]byte) error, missed func(texts int) []byte) *Outbox {
	b := &Outbox{write: write, missed: missed, done: make(chan struct{})}
	b.more = sync.NewCond(&b.mu)
	go b.run()
	return b
}

// Write takes a text, which the caller may change afterwards. It never waits and never fails: what
// does not fit, or comes after Close, is left out.
func (b *Outbox) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed || b.mu.bytes+len(text) > OutboxBytes {
		b.mu.left++
		b.mu.lost++
		return len(text), nil
	}
	b.note()
	b.mu.waiting = append(b.mu.waiting, item{text: append([]byte(nil), text...)})
	b.mu.bytes += len(text)
	b.more.Signal()
	return len(text), nil
}

// note puts down how many texts were left out here. mu is held.
func (b *Outbox) note() {
	if b.mu.left > 0 {
		b.mu.waiting = append(b.mu.waiting, item{left: b.mu.left})
		b.mu.left = 0
	}
}

func (b *Outbox) run() {
	defer close(b.done)
	for next, ok := b.next(); ok; next, ok = b.next() {
		b.put(next)
	}
}

// next waits for the oldest text; ok is false after the last one. Its bytes count until it is
// written.
func (b *Outbox) next() (next item, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.mu.waiting) == 0 && !b.mu.closed {
		b.more.Wait()
	}
	if len(b.mu.waiting) == 0 {
		return next, false
	}
	next = b.mu.waiting[0]
	b.mu.waiting[0] = item{}
	b.mu.waiting = b.mu.waiting[1:]
	return next, true
}

// put writes a text, without the lock.
func (b *Outbox) put(i item) {
	text := i.text
	if i.left > 0 {
		text = b.missed(i.left)
	}
	err := b.write(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.bytes -= len(i.text)
	if err != nil {
		b.mu.err = err
	}
}

// ErrBlocked is what Close returns where a write has not returned. It may do so later.
var ErrBlocked = errors.New("the output takes no more")

// Close writes what waits, for at most so long, and takes nothing more. It returns how many texts
// were left out in all, those that are given up now among them, and the last error of a write. A
// write that blocks for good keeps the goroutine until the program ends.
func (b *Outbox) Close(patience time.Duration) (lost int, err error) {
	b.mu.Lock()
	b.note()
	b.mu.closed = true
	b.more.Signal()
	b.mu.Unlock()
	blocked := error(nil)
	select {
	case <-b.done:
	case <-time.After(patience):
		blocked = ErrBlocked
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.mu.waiting {
		if i.left == 0 {
			b.mu.lost++
		}
	}
	b.mu.waiting = nil
	return b.mu.lost, errors.Join(b.mu.err, blocked)
}
